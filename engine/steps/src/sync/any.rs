//! Objects whose kind only the running request knows (FTN12 §1.11).

use std::fmt;
use std::rc::Rc;

use super::section::{ISync, Section};
use crate::error::StepResult;
use crate::stack::AsyncSteps;

/// An object of any kind that steps can synchronise against (FTN12 §1.11.3).
#[derive(Clone)]
pub struct AnySync(Rc<dyn ISync>);

impl ISync for AnySync {
    fn sync(&self, asi: &mut AsyncSteps, section: Section) -> StepResult {
        self.0.sync(asi, section)
    }
}

impl fmt::Debug for AnySync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnySync")
    }
}

/// An object that a step can hold while it runs: a lock, a limiter, a key of one, or an `Option` of
/// these.
#[diagnostic::on_unimplemented(
    message = "a step cannot hold `{Self}`",
    label = "no owned lock or limiter",
    note = "the closure returns an owned lock, limiter or key, or an `Option` of one: `|cx, _| cx.seats.clone()`, \
            `|cx, seat| cx.seats.key(seat)`"
)]
pub trait StepLock {
    /// The object, if there is one to hold.
    fn into_sync(self) -> Option<AnySync>;
}

impl<O: ISync + 'static> StepLock for O {
    fn into_sync(self) -> Option<AnySync> {
        Some(AnySync(Rc::new(self)))
    }
}

#[diagnostic::do_not_recommend]
impl<O: StepLock> StepLock for Option<O> {
    fn into_sync(self) -> Option<AnySync> {
        self.and_then(O::into_sync)
    }
}
