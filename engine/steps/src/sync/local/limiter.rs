//! A limiter for flows on one event loop (FTN12 §2.5).

use super::mutex::Mutex;
use super::throttle::Throttle;
use crate::error::StepResult;
use crate::stack::AsyncSteps;
use crate::sync::limiter::Options;
use crate::sync::section::{ISync, Section};

/// A limiter for flows on one event loop: a mutex around a throttle (FTN12 §1.11.7, §2.5). Cloning
/// shares it.
///
/// ```
/// use asyncsteps_core::{Flow, run_to_end, sync::Limiter};
///
/// let limiter = Limiter::default();
/// let mut flow = Flow::new();
/// flow.sync(&limiter, |asi, ()| asi.success("first in this second"));
/// assert!(run_to_end::<String>(flow).is_ok());
///
/// let mut flow = Flow::new();
/// flow.sync(&limiter, |asi, ()| asi.success("second"));
/// assert_eq!(run_to_end::<String>(flow).unwrap_err().code(), "DefenseRejected");
/// ```
#[derive(Clone, Debug)]
pub struct Limiter {
    mutex: Mutex,
    throttle: Throttle,
}

impl Limiter {
    /// A limiter with these limits.
    ///
    /// # Panics
    /// If a limit is 0 that must not be, see [`Options::check`].
    #[must_use]
    #[track_caller]
    pub fn new(options: Options) -> Self {
        Self { mutex: Mutex::new(options.mutex()), throttle: Throttle::new(options.throttle()) }
    }

    /// How many owners are inside or wait for the next period.
    #[must_use]
    pub fn holders(&self) -> usize {
        self.mutex.holders()
    }

    /// How many owners wait, to be inside or for the next period.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.mutex.queued() + self.throttle.queued()
    }
}

impl Default for Limiter {
    fn default() -> Self {
        Self::new(Options::default())
    }
}

impl ISync for Limiter {
    fn sync(&self, asi: &mut AsyncSteps, section: Section) -> StepResult {
        let throttle = self.throttle.clone();
        self.mutex.sync(asi, section.within(asi, move |asi, section| throttle.sync(asi, section)))
    }
}
