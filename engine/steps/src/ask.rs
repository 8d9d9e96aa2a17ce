//! Questions of an async body to its step (FTN12 §1.13): they are answered when the poll returns, and the future is
//! polled again.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use crate::sleep::{Left, leave};
use crate::stack::AsyncSteps;

/// Asks the step that polls the calling future, for hosts whose futures depend on the step: which locks are held around
/// it, and where it is. The question looks at the step and changes nothing; it is answered within the poll. `None`
/// outside of steps that poll.
///
/// ```
/// use asyncsteps_core::{AsyncSteps, Flow, ask_step, run_to_end};
///
/// let mut flow = Flow::new();
/// flow.run(async |()| Ok(ask_step(|asi| asi.attempt()).await)).named("asks");
/// assert_eq!(run_to_end::<Option<u32>>(flow)?, Some(1));
/// # Ok::<(), asyncsteps_core::Error>(())
/// ```
///
/// # Cancel safety
/// Dropping the future drops the answer.
pub fn ask_step<T: 'static>(
    question: impl FnOnce(&mut AsyncSteps) -> T + 'static,
) -> impl Future<Output = Option<T>> {
    let (answer, mut question) = (Rc::new(Cell::new(None)), Some(question));
    poll_fn(move |cx| {
        let Some(question) = question.take() else {
            return answer.take().map_or(Poll::Pending, |answer| Poll::Ready(Some(answer)));
        };
        let answer = Rc::clone(&answer);
        let asked = Left::Question(Box::new(move |asi| {
            answer.set(asi.downcast_mut().map(question));
        }));
        if !leave(asked) {
            return Poll::Ready(None);
        }
        // a future around this one may poll it only when it was woken
        cx.waker().wake_by_ref();
        Poll::Pending
    })
}
