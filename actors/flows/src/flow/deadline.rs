//! One deadline per request: whatever is started while a flow runs ends no later than the flow.

use std::cell::Cell;
use std::time::Duration;

use asyncsteps_core::{AsyncSteps, Time};

thread_local! {
    /// The deadline of the flow whose turn it is.
    static CURRENT: Cell<Option<Time>> = const { Cell::new(None) };
}

/// Restores the deadline of the enclosing flow when it is dropped.
pub(super) struct DeadlineScope(Option<Time>);

/// Whatever starts until the scope is dropped inherits `deadline`.
#[inline]
pub(super) fn enter(deadline: Option<Time>) -> DeadlineScope {
    DeadlineScope(CURRENT.replace(deadline))
}

impl Drop for DeadlineScope {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// The deadline of something that starts now: its own, or the deadline of the flow that starts it.
#[must_use]
#[inline]
pub fn earliest(own: Option<Time>) -> Option<Time> {
    [own, CURRENT.get()].into_iter().flatten().min()
}

/// Methods by which the steps of a hosted flow see its deadline.
///
/// A flow has one if it serves a request, was started [`within`](super::IntoFlow::within) a time,
/// or was started by a flow that has one. When it passes the flow is cancelled. It is not a time
/// limit of a step: no error handler sees it.
///
/// ```
/// use std::time::Duration;
/// use asyncsteps_core::Flow;
/// use asyncsteps_actors::flow::{DeadlineSteps, IntoFlow, start_flow};
///
/// # actix::System::new().block_on(async {
/// let mut flow = Flow::new();
/// flow.add(|asi, ()| asi.success(asi.remaining().unwrap_or_default().as_secs_f64()));
/// let left = start_flow::<f64>(flow.within(Duration::from_secs(5))).await.unwrap();
/// assert!(left > 4.0 && left <= 5.0);
/// # });
/// ```
pub trait DeadlineSteps {
    /// When the flow will be cancelled, on the clock of [`AsyncSteps::now`].
    fn deadline(&self) -> Option<Time>;

    /// How much time is left until then.
    fn remaining(&self) -> Option<Duration>;
}

impl DeadlineSteps for AsyncSteps {
    fn deadline(&self) -> Option<Time> {
        CURRENT.get()
    }

    fn remaining(&self) -> Option<Duration> {
        Some(self.deadline()?.saturating_since(self.now()))
    }
}
