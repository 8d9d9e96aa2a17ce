//! The cut of a flow, and its moment.

use std::cell::RefCell;
use std::fmt;

use crate::error::Error;

/// How a flow is cut at a moment of its run, see [`cut_everywhere`](super::cut_everywhere).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Cut {
    /// It is cancelled (FTN12 §2.2.3 `cancel`), as when a client leaves or a server closes.
    Cancel,
    /// Its host drops it: cancel handlers and undos run, and it has no outcome of its own.
    Drop,
    /// A time limit around the flow expires: everything inside of its outermost step is cancelled,
    /// and the flow fails with `Timeout`, unless that step recovers.
    Timeout,
    /// A step fails with this error: one that waits, or one that starts, instead of its body.
    Error(Error),
    /// An undo of the flow is dropped where it waits, and runs again from its beginning, as after a crash in a host
    /// whose flows survive one.
    Undo,
}

/// Where a flow is to be cut, and whether it was.
pub(super) struct CutPlan {
    pub(super) flow: usize,
    pub(super) cut: Cut,
    /// `None` for a run that is not cut and counts the moments.
    pub(super) at: Option<u64>,
    /// How many moments have passed.
    pub(super) passed: u64,
    /// The steps in progress when it was cut.
    pub(super) place: Option<String>,
}

/// The plan of a simulation, if it cuts a flow.
pub(super) type SharedCutPlan = RefCell<Option<CutPlan>>;

impl CutPlan {
    /// Passes one more moment; returns the cut if this is the chosen one.
    pub(super) fn pass(&mut self, place: impl FnOnce() -> String) -> Option<Cut> {
        let moment = self.passed;
        self.passed += 1;
        if self.at != Some(moment) {
            return None;
        }
        self.place = Some(place());
        Some(self.cut.clone())
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancel => f.write_str("a cancel"),
            Self::Drop => f.write_str("a drop"),
            Self::Timeout => f.write_str("a time limit"),
            Self::Error(error) => write!(f, "the error {error}"),
            Self::Undo => f.write_str("a crash"),
        }
    }
}
