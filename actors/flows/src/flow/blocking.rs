//! Work that blocks, away from the arbiter.

use std::panic::resume_unwind;

use asyncsteps_core::{Error, codes};
use tokio::task::{AbortHandle, spawn_blocking};

/// Runs work that blocks (files, DNS, long computations) on a thread of tokio's blocking pool, for
/// [`await_`](asyncsteps_core::AsyncSteps::await_).
///
/// The work is passed to the pool when the future is first polled, so when its step runs. An error
/// that is an [`asyncsteps_core::Error`] keeps its code. A panic of the work fails the step with
/// InternalError, as a panic in a step does.
///
/// # Cancel safety
/// When the future is dropped, by a time limit for example, work that no thread has begun is taken
/// back. Work that was begun cannot be stopped: it runs to its end, and its result is dropped.
///
/// # Errors
/// The error of the work; InternalError if the runtime ends.
///
/// ```
/// use asyncsteps_core::Flow;
/// use asyncsteps_actors::flow::{blocking, start_flow};
///
/// # actix::System::new().block_on(async {
/// let mut flow = Flow::new();
/// flow.await_(blocking(|| std::fs::read_to_string("/no/such/file")));
/// assert_eq!(start_flow::<String>(flow).await.unwrap_err().code(), "InternalError");
/// # });
/// ```
pub async fn blocking<T, E>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, Box<dyn std::error::Error + Send + Sync>>
where
    T: Send + 'static,
    E: Into<Box<dyn std::error::Error + Send + Sync>> + Send + 'static,
{
    let task = spawn_blocking(work);
    let _taken_back = TakeBack(task.abort_handle());
    match task.await {
        Ok(result) => result.map_err(Into::into),
        Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
        Err(_) => Err(Error::with_info(codes::INTERNAL_ERROR, "the runtime ends").into()),
    }
}

/// Takes work back that was not begun.
struct TakeBack(AbortHandle);

impl Drop for TakeBack {
    fn drop(&mut self) {
        self.0.abort();
    }
}
