//! The answer to a caller that waits no longer than the function says: the result of the request, what a step has
//! answered, or the error of the limit. Which of them it is, is decided once: a request that ends by the limit is
//! cancelled with its error.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_actors::{clock, timer};
use asyncsteps_core::{Error, Time, codes};
use asyncsteps_executor::plan::AnswerWithin;
use asyncsteps_executor::recorder::OUTCOME_UNKNOWN;
use asyncsteps_executor::{EventSender, Executor, ServedRequest};
use asyncsteps_journal::request::CancelledBy;
use asyncsteps_journal::{LEASE, POLL, Path, Repeat, Uid};
use serde_json::{Map, Value};
use tokio::runtime::Handle;

use crate::cancels::error_for_caller;
use crate::detached::detached;
use crate::durable::Durable;
use crate::event_reader::EventReader;
use crate::events::text_of;
use crate::records::failure_of;
use crate::shared::DurableFunction;
use crate::submit::{NotSubmitted, Options, error_of_submit};
use crate::until::end_at;

/// How long the journal may take to decide after the limit of the caller.
const DECISION: Duration = Duration::from_millis(250);

/// A durable function is called where no node runs requests.
#[derive(Debug, thiserror::Error)]
#[error(
    "a durable function needs an arbiter: in a simulation host the function with `Functions::on`, without a journal, and \
     test its crashes with a journal in memory"
)]
struct NoRuntime;

/// A request of a caller.
pub(crate) struct CallerRequest {
    pub(crate) served: ServedRequest,
    /// The executor that serves the caller.
    pub(crate) executor: Executor,
    pub(crate) function: String,
    pub(crate) params: Map<String, Value>,
    pub(crate) options: Options,
    /// How long the caller waits, and when the request arrived.
    pub(crate) within: Option<(AnswerWithin, Time)>,
    /// When the executor would answer in its place.
    pub(crate) limit: Option<Time>,
    /// Set to the earlier request whose answer it gets, which has its key.
    pub(crate) earlier: Rc<Cell<Option<Uid>>>,
}

impl CallerRequest {
    /// Submits the request and waits for its answer.
    pub(crate) async fn answer(self, durable: Durable) -> Result<Value, Error> {
        let Self { served, executor, function, params, options, within, limit, earlier } = self;
        if Handle::try_current().is_err() {
            return Err(Error::caused_by(codes::INTERNAL_ERROR, NoRuntime));
        }
        let (waits, end) = (within.is_some(), within.as_ref().map(|(it, at)| it.end(*at)));
        let program = durable.program(&function).map_err(|error| error_of_submit(&error))?;
        let answers = program.answers.clone();
        let answers = answers.as_ref();
        // who watches it waits for its end
        let early = answers.filter(|_| served.events().is_none());
        let own = Uid::random().map_err(|error| Error::caused_by(codes::INTERNAL_ERROR, error))?;
        let (_awaited, stored) = (durable.awaits(own), Cell::new(None));
        let result = async {
            let submitted = submit(&durable, program, params, options.uid(own)).await;
            let uid = submitted.map_err(|error| error_of_submit(&error))?;
            stored.set(Some(uid));
            served.waits_for(&uid.to_string());
            if uid != own {
                earlier.set(Some(uid));
            }
            let answer = unless_left(&durable, &executor, uid, durable.answer(uid, early, waits));
            let Some(events) = served.events() else { return answer.await };
            // of a request that is new its caller has none
            let after = if uid == own { 0 } else { events.after() };
            watched(durable.event_reader(uid, after), events, answer).await
        };
        let first_end = [end, limit].into_iter().flatten().min();
        tokio::select! {
            biased;
            result = result => return result,
            () = end_at(first_end) => {}
        }
        let Some(uid) = stored.get() else { return Err(unknown(own)) };
        let Some((within, _)) = within.filter(|_| end == first_end) else {
            let info = format!("the request {uid} has not ended in time, and goes on");
            return Err(Error::with_info(OUTCOME_UNKNOWN, info));
        };
        let decided = detached(decide(durable.clone(), uid, answers.cloned(), within.error()));
        tokio::select! {
            biased;
            decided = decided => decided,
            () = timer::sleep_until(clock::now() + DECISION) => Err(unknown(uid)),
        }
    }
}

/// Waits for the answer of a request, and sends what it emits until then.
async fn watched(
    mut reader: EventReader,
    events: &EventSender,
    answer: impl Future<Output = Result<Value, Error>>,
) -> Result<Value, Error> {
    let mut answer = pin!(answer);
    let answer = loop {
        tokio::select! {
            biased;
            answer = &mut answer => break answer,
            read = reader.next() => match read {
                Ok(read) if !read.is_empty() => events.send(text_of(&read)?).await,
                // it has ended, or cannot be read: the answer says more
                Ok(_) | Err(_) => break answer.await,
            },
        }
    };
    while let Ok(read) = reader.rest().await
        && !read.is_empty()
    {
        events.send(text_of(&read)?).await;
    }
    answer
}

/// The answer of a request, unless the executor closes and no node has the request: it ends after the next start, or on
/// another node, and the caller is not kept waiting for that.
async fn unless_left(
    durable: &Durable,
    executor: &Executor,
    uid: Uid,
    answer: impl Future<Output = Result<Value, Error>>,
) -> Result<Value, Error> {
    tokio::select! {
        biased;
        answer = answer => answer,
        () = durable.left_at_close(uid, executor) => {
            let info = format!("the executor closes before the request {uid} ends: it is stored, and goes on later");
            Err(Error::with_info(OUTCOME_UNKNOWN, info))
        }
    }
}

/// Stores a request that the executor has checked.
async fn submit(
    durable: &Durable,
    program: Arc<DurableFunction>,
    params: Map<String, Value>,
    options: Options,
) -> Result<Uid, NotSubmitted> {
    // it is large, and gone while the caller waits
    Box::pin(durable.submit_checked(program, params, options)).await
}

/// Ends the request with the error of the limit, unless it has ended or is ended otherwise; returns the answer that
/// all callers get.
async fn decide(
    durable: Durable,
    uid: Uid,
    answers: Option<Path>,
    error: Error,
) -> Result<Value, Error> {
    let answers = answers.as_ref();
    let (by, given_up) = (CancelledBy::Limit(failure_of(&error)), clock::now() + LEASE);
    loop {
        match durable.cancelled(uid, by.clone(), answers).await {
            Ok(Some(cancel)) => return Err(error_for_caller(uid, &cancel)),
            Ok(None) => return durable.answer(uid, answers, true).await,
            Err(error) if error.repeat() == Repeat::Never || clock::now() >= given_up => {
                tracing::warn!(flow = %uid, %error, "it is not decided whether a caller has its result in time");
                return Err(unknown(uid));
            }
            Err(_) => timer::sleep_until(clock::now() + POLL / 10).await,
        }
    }
}

fn unknown(uid: Uid) -> Error {
    let info = format!("the journal has not decided in time how the request {uid} ends");
    Error::with_info(OUTCOME_UNKNOWN, info)
}
