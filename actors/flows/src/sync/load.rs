//! How busy an object is.

use std::sync::Arc;

use actix::dev::{MessageResponse, OneshotSender};
use actix::{Actor, Message};

use super::limits::Limits;
use super::waits::WaitFigures;

/// How busy an object is, over all of its keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Keys that are held or waited for, or that have entries in the current period.
    pub keys: usize,
    /// Holders inside of a section; a throttle has none.
    pub holders: usize,
    /// Waiters.
    pub queued: usize,
}

impl Load {
    /// No load.
    pub const NONE: Self = Self { keys: 0, holders: 0, queued: 0 };
}

/// An object and its keys, as a moment ago: the answer to [`Inspect`](super::Inspect).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockReport {
    /// The name of the object; empty if it has none.
    pub name: &'static str,
    /// Its kind and limits; `None` if it is gone.
    pub limits: Option<Limits>,
    /// The keys in use, in no particular order.
    pub keys: Vec<KeyReport>,
    /// The waits for it so far.
    pub waits: WaitFigures,
}

impl<A: Actor, M: Message<Result = Self>> MessageResponse<A, M> for LockReport {
    fn handle(self, _: &mut A::Context, to: Option<OneshotSender<Self>>) {
        if let Some(to) = to {
            // whoever asked may be gone
            let _ = to.send(self);
        }
    }
}

/// A key of an object that is in use.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyReport {
    /// The key; empty for the object itself.
    pub key: Arc<str>,
    /// Holders inside of a section; a throttle has none.
    pub holders: usize,
    /// Waiters.
    pub queued: usize,
    /// Entries in the current period of a throttle or limiter; a mutex has none.
    pub entered: u32,
}

impl LockReport {
    /// The sums over all keys.
    #[must_use]
    pub fn load(&self) -> Load {
        self.keys.iter().fold(Load::NONE, |load, key| Load {
            keys: load.keys + 1,
            holders: load.holders + key.holders,
            queued: load.queued + key.queued,
        })
    }
}
