//! What callers and the program wait for: the end of a request, or what it answers before.

use std::future::pending;

use asyncsteps_actors::clock::Clock;
use asyncsteps_core::codes;
use asyncsteps_executor::Executor;
use asyncsteps_journal::record::Ending;
use asyncsteps_journal::request::{CancelledBy, FlowInfo, FlowState, Status, StoredCancel};
use asyncsteps_journal::{Error, Event, LEASE, POLL, Path, Repeat, Uid, Value};
use serde::de::DeserializeOwned;

use crate::cancels::error_of_cancelled;
use crate::durable::Durable;
use crate::on_drop::on_drop;
use crate::records;
use crate::replay::Replay;
use crate::writer::RecordTicket;

impl Durable {
    /// Waits for the end of a request, on whichever node that is; also while the journal cannot be asked. An end in another
    /// process is noticed within a second, or within a hundredth of the wait, 10 s at the most. One that
    /// waits for an operator does not end by itself, which is an error at once: [`wait_ended`](Self::wait_ended) waits for
    /// the operator as well.
    ///
    /// # Errors
    /// [`NotEnded::Stopped`] with its state and the reason, or the errors of [`status`](Self::status) that persist.
    ///
    /// # Cancel safety
    /// Dropping the future does nothing to the request.
    pub async fn ended(&self, uid: Uid) -> Result<Ending, NotEnded> {
        self.until(uid, None, |status, _| end_of(status, false)).await?
    }

    /// Waits for the end of a request, also while it waits for an operator, and so for ever if none comes.
    ///
    /// # Errors
    /// The errors of [`status`](Self::status) that persist.
    ///
    /// # Cancel safety
    /// Dropping the future does nothing to the request.
    pub async fn wait_ended(&self, uid: Uid) -> Result<Ending, Error> {
        self.until(uid, None, |status, _| status.ending).await
    }

    /// Waits until it is decided what a caller gets of a request: what a step at this path has answered, or how it ends. A
    /// limit of a caller decides before what was done is undone. A request that waits for an operator is an error, if the
    /// caller does not wait for that.
    async fn decided(
        &self,
        uid: Uid,
        answers: Option<&Path>,
        waits: bool,
    ) -> Result<Ending, NotEnded> {
        let look = |status: Status, answer: Option<Value>| match (answer, &status.flow.cancel) {
            (Some(answer), _) => Some(Ok(Ok(Ending::Completed(answer)))),
            (None, Some(StoredCancel { by: CancelledBy::Limit(failure), .. })) => {
                Some(Err(failure.clone()))
            }
            (None, _) => end_of(status, waits).map(Ok),
        };
        match self.until(uid, answers, look).await? {
            Ok(end) => end,
            Err(_) if self.is_committed(uid).await? => {
                self.until(uid, None, |status, _| end_of(status, waits)).await?
            }
            Err(failure) => Ok(Ending::Failed(failure)),
        }
    }

    /// The result of the step at this path of a request, if it has ended well.
    async fn answered_at(&self, uid: Uid, path: &Path) -> Result<Option<Value>, Error> {
        let records = self.records(uid).await?.into_iter().map(|stored| stored.record);
        let mut ended = records.filter(|record| record.path == *path);
        Ok(ended.find_map(|record| {
            let Event::Done(done) = record.event else { return None };
            Some(done.value)
        }))
    }

    /// Whether a step that commits a request has begun.
    pub(crate) async fn is_committed(&self, uid: Uid) -> Result<bool, Error> {
        let records = self.records(uid).await?;
        Ok(Replay::read(&records, |_| RecordTicket::default()).is_committed())
    }

    /// Completes when the executor closes and no node has the request: the nodes of an executor that closes take none, so
    /// its end is not waited for any longer.
    pub(crate) async fn left_at_close(&self, uid: Uid, executor: &Executor) {
        executor.closing().await;
        let is_left = |status: Status, _| is_left(status.flow.state).then_some(());
        if self.until(uid, None, is_left).await.is_err() {
            // the caller waits for the end as well, and gets that error there
            pending::<()>().await;
        }
    }

    /// Says that the end of a request is waited for, which is stored next; until this is dropped.
    pub(crate) fn awaits(&self, uid: Uid) -> impl Sized {
        (self.shared.waiters.wait(uid), on_drop(move || self.shared.waiters.forget(uid)))
    }

    /// Re-evaluates `look` whenever the request may have ended, or answered at this path, until it returns `Some`.
    async fn until<T>(
        &self,
        uid: Uid,
        answers: Option<&Path>,
        look: impl Fn(Status, Option<Value>) -> Option<T>,
    ) -> Result<T, Error> {
        let _forget = on_drop(|| self.shared.waiters.forget(uid));
        let begun = Clock::start();
        loop {
            let end = self.shared.waiters.wait(uid);
            let status = async {
                let status = self.shared.journal.status(uid).await?;
                let answer = match answers {
                    Some(path) => self.answered_at(uid, path).await?,
                    None => None,
                };
                Ok::<_, Error>(look(status, answer))
            };
            match status.await {
                Ok(Some(found)) => return Ok(found),
                Err(error) if error.repeat() == Repeat::Never => return Err(error),
                Ok(None) | Err(_) => {}
            }
            tokio::select! {
                biased;
                _ = end => {}
                // later by a hundredth of the wait at the most
                () = tokio::time::sleep((begun.elapsed() / 100).clamp(POLL, LEASE)) => {}
            }
        }
    }

    /// Waits for the result of a request, as [`ended`](Self::ended) waits for its end.
    ///
    /// # Errors
    /// The error with which it ended; `Cancelled` if it was cancelled; InternalError, with [`NotEnded`] as its cause, if it
    /// waits for an operator or the journal cannot be asked.
    ///
    /// # Cancel safety
    /// Dropping the future does nothing to the request.
    pub async fn result<T: DeserializeOwned>(&self, uid: Uid) -> Result<T, asyncsteps_core::Error> {
        let ending = self.decided(uid, None, false).await;
        let ending = ending
            .map_err(|error| asyncsteps_core::Error::caused_by(codes::INTERNAL_ERROR, error))?;
        let result = result_of(ending)?;
        result.ok_or_else(|| asyncsteps_core::Error::new(crate::cancels::CANCELLED))
    }

    /// The answer to a caller of a request, who may wait for an operator. Of a request that was cancelled it is
    /// InternalError: no function has to declare another error for that.
    pub(crate) async fn answer(
        &self,
        uid: Uid,
        answers: Option<&Path>,
        waits: bool,
    ) -> Result<serde_json::Value, asyncsteps_core::Error> {
        use asyncsteps_core::Error;
        let ending = self.decided(uid, answers, waits).await.map_err(|error| match error {
            // the reason is for operators
            NotEnded::Stopped { state, .. } => {
                let info =
                    format!("the request {uid} is {}: it waits for an operator", named(state));
                Error::with_info(codes::INTERNAL_ERROR, info)
            }
            NotEnded::Journal(cause) => Error::caused_by(codes::INTERNAL_ERROR, cause),
        })?;
        result_of(ending)?.ok_or_else(|| error_of_cancelled(uid))
    }
}

fn unreadable(error: impl std::error::Error + Send + Sync + 'static) -> asyncsteps_core::Error {
    asyncsteps_core::Error::caused_by(codes::INVOKER_ERROR, error)
}

/// Why the end of a request is not waited for any longer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotEnded {
    /// It waits for an operator.
    #[error("the request {uid} is {}, and waits for an operator: {reason}", named(*.state))]
    Stopped {
        /// The request.
        uid: Uid,
        /// [`Paused`](FlowState::Paused) or [`Dead`](FlowState::Dead).
        state: FlowState,
        /// Why, for people.
        reason: String,
    },
    /// The journal cannot be asked.
    #[error(transparent)]
    Journal(#[from] Error),
}

/// The end of a request; an error if it waits for an operator, unless that is waited for.
fn end_of(status: Status, waits: bool) -> Option<Result<Ending, NotEnded>> {
    let FlowInfo { uid, state, reason, .. } = status.flow;
    let stopped = || NotEnded::Stopped { uid, state, reason: reason.unwrap_or_default() };
    match status.ending {
        Some(ending) => Some(Ok(ending)),
        None => (!waits && is_stopped(state)).then(|| Err(stopped())),
    }
}

fn named(state: FlowState) -> &'static str {
    if state == FlowState::Dead { "a dead letter" } else { "paused" }
}

/// The result of a request that ended so; `None` if it was cancelled.
fn result_of<T: DeserializeOwned>(ending: Ending) -> Result<Option<T>, asyncsteps_core::Error> {
    match ending {
        Ending::Completed(value) => {
            let json: serde_json::Value = value.decode().map_err(unreadable)?;
            T::deserialize(json).map(Some).map_err(unreadable)
        }
        Ending::Failed(failure) => Err(records::error_of(&failure)),
        Ending::Cancelled | _ => Ok(None),
    }
}

/// Whether a request waits for an operator.
pub(crate) fn is_stopped(state: FlowState) -> bool {
    matches!(state, FlowState::Paused | FlowState::Dead)
}

/// Whether a request goes on by itself, and no node has it.
fn is_left(state: FlowState) -> bool {
    use FlowState as State;
    matches!(state, State::New | State::Ready | State::Suspect | State::Parked)
}
