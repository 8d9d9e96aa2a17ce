//! Requests to the journal whose answer may be lost.

use asyncsteps_journal::{Error, POLL, Repeat};

/// Repeats a request, which may have been done, until it is answered.
pub(crate) async fn answered<T, F>(mut ask: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    loop {
        match ask().await {
            Err(error) if error.repeat() == Repeat::UntilAnswered => {
                // handles are used outside of arbiters too
                tokio::time::sleep(POLL / 10).await;
            }
            answer => return answer,
        }
    }
}
