//! A deadlock as it is reported.

use std::fmt;
use std::sync::Arc;

use asyncsteps_core::{Identity, StepLocation};

use crate::sync::waiter::Label;

/// A cycle of waits, as it was found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Deadlock {
    /// The waits of the cycle: each waits for the next one, and the last for the first. The first is
    /// the newest, which closed the cycle. None if it is in several processes.
    pub waits: Vec<DeadlockWait>,
    /// Whether it was left to a time limit instead of failing the newest wait.
    pub left_to_limit: bool,
    /// What it is, if it is in several processes.
    pub(super) text: Option<Arc<str>>,
}

/// One wait of a [`Deadlock`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeadlockWait {
    /// The flow or branch that waits.
    pub identity: Identity,
    /// The step that waits.
    pub place: StepLocation,
    /// The resource that it waits for.
    pub resource: Resource,
}

/// A resource that a [`DeadlockWait`] step waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resource {
    /// A lock that other flows have.
    Mutex {
        /// Its name, empty if it has none.
        name: &'static str,
        /// Its key, empty if it has none.
        key: Arc<str>,
    },
    /// The answer to a call within the process.
    Call {
        /// The function, with interface and version.
        function: Arc<str>,
    },
}

impl Resource {
    /// How the flow that is waited for has it.
    fn link(&self) -> &'static str {
        match self {
            Self::Mutex { .. } => "held by",
            Self::Call { .. } => "carried out by",
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mutex { name, key } => Label { kind: "mutex", name, key }.fmt(f),
            Self::Call { function } => write!(f, "the call of {function}"),
        }
    }
}

/// The text of a flow or branch.
struct Who(Identity);

/// The text of a wait, and where it is.
struct What<'a>(&'a DeadlockWait);

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "flow {}", self.0.flow)?;
        if self.0.branch > 0 {
            write!(f, " branch {}", self.0.branch)?;
        }
        Ok(())
    }
}

impl fmt::Display for What<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DeadlockWait { resource, place, .. } = self.0;
        write!(f, "{resource} ({place})")
    }
}

impl fmt::Display for DeadlockWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} waits for {}", Who(self.identity), What(self))
    }
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, others @ ..] = &*self.waits else {
            return write!(f, "deadlock: {}", self.text.as_deref().unwrap_or_default());
        };
        write!(f, "deadlock: {first}, ")?;
        let mut link = first.resource.link();
        for wait in others {
            write!(f, "{link} {} that waits for {}, ", Who(wait.identity), What(wait))?;
            link = wait.resource.link();
        }
        write!(f, "{link} {}", Who(first.identity))
    }
}

impl std::error::Error for Deadlock {}
