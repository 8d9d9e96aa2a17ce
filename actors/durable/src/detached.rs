//! Work that runs to its end, even if nothing waits for it any more.

use std::future::pending;
use std::panic::resume_unwind;

/// Does something to its end, also if the future is dropped.
pub(crate) async fn detached<T: 'static>(task: impl Future<Output = T> + 'static) -> T {
    match actix_rt::spawn(task).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(payload) => resume_unwind(payload),
            // the arbiter ends
            Err(_) => pending().await,
        },
    }
}
