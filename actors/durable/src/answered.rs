//! Requests to the journal whose answer may be lost.

use asyncsteps_journal::{Error, POLL, Repeat};

/// Repeats a request, which may have been done, until it is answered.
///
/// Once an answer was lost, an error that says that nothing was done is no answer: it is true of the repeated request
/// alone.
pub(crate) async fn answered<T, F>(ask: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    answered_or_lost(ask).await.0
}

/// The same, and whether an answer was lost: then the request may have been done before the one that was answered.
pub(crate) async fn answered_or_lost<T, F>(mut ask: impl FnMut() -> F) -> (Result<T, Error>, bool)
where
    F: Future<Output = Result<T, Error>>,
{
    let mut may_be_done = false;
    loop {
        let answer = ask().await;
        match answer.as_ref().map_err(Error::repeat) {
            Err(Repeat::UntilAnswered) => may_be_done = true,
            Err(Repeat::Later) if may_be_done => {}
            Ok(_) | Err(_) => return (answer, may_be_done),
        }
        // handles are used outside of arbiters too
        tokio::time::sleep(POLL / 10).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// The answer to a request whose attempts end like this, and how many attempts are left.
    async fn answer(mut attempts: Vec<Result<(), Error>>) -> (Result<(), Repeat>, usize) {
        let answer = answered(|| {
            let attempt = attempts.remove(0);
            async move { attempt }
        });
        let answer = answer.await.map_err(|error| error.repeat());
        (answer, attempts.len())
    }

    /// Found by seed 216 of the simulated cluster: the node renewed its lease and never ran what it had claimed.
    #[tokio::test(start_paused = true)]
    async fn after_a_lost_answer_an_error_of_a_repeated_request_is_no_answer() {
        let why = || Arc::new(std::fmt::Error);
        let lost = || Err(Error::AnswerLost(why()));
        let full = || Err(Error::DiskFull(why()));
        assert_eq!(answer(vec![full(), Ok(())]).await, (Err(Repeat::Later), 1));
        let attempts = vec![lost(), full(), Err(Error::Unavailable(why())), lost(), Ok(()), full()];
        assert_eq!(answer(attempts).await, (Ok(()), 1));
        assert_eq!(answer(vec![lost(), Err(Error::Closed), Ok(())]).await, (Err(Repeat::Never), 1));
    }
}
