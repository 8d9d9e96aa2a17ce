//! The answer to a caller that waits no longer than the function says: the result of the request, or the error of
//! the limit. Which of them it is, is decided once: a request that ends by the limit is cancelled with its error.

use std::cell::Cell;
use std::time::Duration;

use asyncsteps::{Error, Time, codes};
use asyncsteps_actors::{clock, timer};
use asyncsteps_executor::memory::OUTCOME_UNKNOWN;
use asyncsteps_executor::service::AnswerWithin;
use asyncsteps_journal::record::Failure;
use asyncsteps_journal::request::Cancel;
use asyncsteps_journal::{LEASE, POLL, Repeat, Uid};
use serde_json::{Map, Value};

use crate::detached::detached;
use crate::durable::Durable;
use crate::flow::CANCELLED;
use crate::front::error_of_submit;
use crate::records::{error_of, failure_of};
use crate::submit::{NotSubmitted, Options};

/// How long the journal may take to decide after the limit of the caller.
const DECISION: Duration = Duration::from_millis(250);

/// What a cancel by a limit begins with, in place of who has cancelled: names of people have no such character.
const BY_LIMIT: char = '\u{1}';

/// How long the text of an error may be, in bytes: a cancel has room for it.
const TEXT: usize = 1024;

/// A request of a caller.
pub(crate) struct Called {
    pub(crate) function: String,
    pub(crate) params: Map<String, Value>,
    pub(crate) options: Options,
    /// How long the caller waits, and when the request arrived.
    pub(crate) within: Option<(AnswerWithin, Time)>,
}

impl Called {
    /// Submits the request and waits for its answer.
    pub(crate) async fn answer(self, durable: Durable) -> Result<Value, Error> {
        let Self { function, params, options, within } = self;
        let Some((within, arrived)) = within else {
            let submitted = submit(&durable, &function, params, options).await;
            return durable.result(submitted.map_err(|error| error_of_submit(&error))?).await;
        };
        let uid = Uid::random().map_err(|error| Error::caused_by(codes::INTERNAL_ERROR, error))?;
        let stored = Cell::new(None);
        let result = async {
            let submitted = submit(&durable, &function, params, options.uid(uid)).await;
            let uid = submitted.map_err(|error| error_of_submit(&error))?;
            stored.set(Some(uid));
            durable.result(uid).await
        };
        tokio::select! {
            biased;
            result = result => return result,
            () = timer::sleep_until(within.end(arrived)) => {}
        }
        let Some(uid) = stored.get() else { return Err(unknown(uid)) };
        let decided = detached(decide(durable.clone(), uid, within.error()));
        tokio::select! {
            biased;
            decided = decided => decided,
            () = timer::sleep_until(clock::now() + DECISION) => Err(unknown(uid)),
        }
    }
}

/// Stores a request that the executor has checked.
async fn submit(
    durable: &Durable,
    function: &str,
    params: Map<String, Value>,
    options: Options,
) -> Result<Uid, NotSubmitted> {
    durable.submit_checked(durable.program(function)?, params, options).await
}

/// Ends the request with the error of the limit, unless it has ended or is ended otherwise; returns the answer that
/// all callers get.
async fn decide(durable: Durable, uid: Uid, error: Error) -> Result<Value, Error> {
    let (by, given_up) = (by_limit(&failure_of(&error)), clock::now() + LEASE);
    loop {
        match durable.cancelled(uid, by.clone()).await {
            Ok(Some(cancel)) => return Err(error_of_cancel(&cancel)),
            Ok(None) => return durable.result(uid).await,
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

/// Who cancels a request whose caller waits no longer: its limit, with this failure.
fn by_limit(failure: &Failure) -> String {
    let text = failure.text.as_deref().map(shortened);
    let text = text.map(|text| format!("{BY_LIMIT}{text}")).unwrap_or_default();
    format!("{BY_LIMIT}{}{text}", failure.code)
}

/// The beginning of a text, up to the end of a character.
fn shortened(text: &str) -> &str {
    let ends = text.char_indices().map(|(at, character)| at + character.len_utf8());
    &text[..ends.take_while(|end| *end <= TEXT).last().unwrap_or(0)]
}

/// The failure with which the limit of a caller has ended a request; `None` if somebody has cancelled it.
pub(crate) fn failure_of_limit(by: &str) -> Option<Failure> {
    let failure = by.strip_prefix(BY_LIMIT)?;
    let (code, text) = match failure.split_once(BY_LIMIT) {
        Some((code, text)) => (code, Some(text.to_owned())),
        None => (failure, None),
    };
    Some(Failure { code: code.to_owned(), text })
}

/// Who has cancelled a request, as it is stored: people are no limit.
pub(crate) fn by_person(by: &str) -> String {
    by.replace(BY_LIMIT, " ")
}

/// Who or what has cancelled a request, for people.
pub(crate) fn shown_by(by: &str) -> String {
    match failure_of_limit(by) {
        Some(failure) => format!("the limit of its caller, with {}", failure.code),
        None => by.to_owned(),
    }
}

/// The error with which a cancel ends a request.
pub(crate) fn error_of_cancel(cancel: &Cancel) -> Error {
    match failure_of_limit(&cancel.by) {
        Some(failure) => error_of(&failure),
        None => Error::with_info(CANCELLED, format!("cancelled by {}", cancel.by)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_failure_of_a_limit_is_read_as_it_was_written_and_no_person_writes_one() {
        for text in [None, Some(String::new()), Some("two\nlines".to_owned())] {
            let failure = Failure { code: "Slow".to_owned(), text };
            assert_eq!(failure_of_limit(&by_limit(&failure)), Some(failure));
        }
        let long = Failure { code: "Slow".to_owned(), text: Some("\u{e4}".repeat(5_000)) };
        let text = failure_of_limit(&by_limit(&long)).and_then(|failure| failure.text);
        assert_eq!(text.map(|text| text.len()), Some(TEXT));
        assert_eq!(failure_of_limit(&by_person("\u{1}Slow")), None);
        assert_eq!(failure_of_limit("ann"), None);
    }
}
