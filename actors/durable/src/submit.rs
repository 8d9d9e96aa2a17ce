//! The options of a request that is submitted.

use asyncsteps_core::codes;
use asyncsteps_executor::channel::Channel;
use asyncsteps_executor::{Caller, KeyPolicy, Refused};
use asyncsteps_journal::record::Parent;
use asyncsteps_journal::{Error, Repeat, Timestamp, Uid, ValueError};

use crate::caller::Origin;

/// The options of a request that is [submitted](crate::Durable::submit).
#[derive(Clone, Debug)]
#[must_use = "it is given to `Durable::submit`"]
pub struct Options {
    pub(crate) caller: Caller,
    pub(crate) key: Option<String>,
    pub(crate) policy: KeyPolicy,
    pub(crate) tags: Vec<String>,
    pub(crate) deadline: Option<Timestamp>,
    pub(crate) start: Option<Timestamp>,
    pub(crate) uid: Option<Uid>,
    /// Where the request came from, if it counts for its caller.
    pub(crate) origin: Option<Origin>,
    /// The step that begins it, if one does.
    pub(crate) parent: Option<Parent>,
}

impl Default for Options {
    fn default() -> Self {
        let (key, policy, tags, deadline, start, uid, origin, parent) = Default::default();
        // its message never leaves the process, as if it were signed
        Self {
            caller: Caller::anonymous(),
            key,
            policy,
            tags,
            deadline,
            start,
            uid,
            origin,
            parent,
        }
    }
}

/// How many requests of a caller may wait unless
/// [set](crate::Durable::waiting_per_caller): far more than a person has open, and few enough that a caller in a loop
/// takes a megabyte or two of the journal.
pub const WAITING_PER_CALLER: u64 = 1000;

impl Options {
    /// The user that it acts for; by default it is anonymous.
    pub fn caller(self, caller: impl Into<Caller>) -> Self {
        Self { caller: caller.into(), ..self }
    }

    /// A key of the caller: the same key again, of the same user for the same function, returns the
    /// first request instead of a second one, until that is trimmed. It is the first one if it has not the
    /// [uid](Self::uid) of this one.
    pub fn key(self, key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), ..self }
    }

    /// What it does if an earlier request has its key; by default it is that one.
    pub fn key_policy(self, policy: KeyPolicy) -> Self {
        Self { policy, ..self }
    }

    /// Names by which it is listed, see [`Query::tag`](asyncsteps_journal::request::Query::tag): up to
    /// [`TAGS`](asyncsteps_journal::limits::TAGS) of [`TAG_BYTES`](asyncsteps_journal::limits::TAG_BYTES). An earlier
    /// request with the key keeps its own.
    pub fn tags(self, tags: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { tags: tags.into_iter().map(Into::into).collect(), ..self }
    }

    /// When it fails with `Timeout`, and is undone, unless it has ended. By default never.
    pub fn deadline(self, deadline: Timestamp) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// When it begins. By default at once.
    pub fn start(self, start: Timestamp) -> Self {
        Self { start: Some(start), ..self }
    }

    /// The request came from a caller, over this channel, and counts for its quota.
    pub(crate) fn counted_from(self, channel: &Channel) -> Self {
        Self { origin: Some(Origin::of(channel)), ..self }
    }

    /// This step begins it, of which it is a child.
    pub(crate) fn child_of(self, parent: Parent) -> Self {
        Self { parent: Some(parent), ..self }
    }

    /// Its name, if the caller chooses it: the same name and parameters again are the same request. By
    /// default it is random.
    pub fn uid(self, uid: Uid) -> Self {
        Self { uid: Some(uid), ..self }
    }
}

/// The answer to a [cancel](crate::Durable::cancel).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a cancel comes in time or too late")]
pub enum Cancelling {
    /// The request ends by this cancel or an earlier one. If a step that [commits](asyncsteps_executor::Step::commits)
    /// fails later, also by one that was too late.
    Requested,
    /// The request has ended, or a step that commits it has begun.
    TooLate,
}

/// Why a request was not stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotSubmitted {
    /// No durable function has this name here.
    #[error("there is no durable function `{0}`")]
    NoFunction(String),
    /// The function would refuse it, such as for the level of the caller or for a parameter.
    #[error("the function refuses the request: {0}")]
    Refused(#[source] Refused),
    /// An earlier request has its key, which [refuses](KeyPolicy::Reject) this one.
    #[error("the request {uid} has the key already, and {}", ended(.outcome.as_deref()))]
    KeyTaken {
        /// The earlier request.
        uid: Uid,
        /// How that ended, as [`FlowInfo::outcome`](asyncsteps_journal::request::FlowInfo::outcome) has it.
        outcome: Option<String>,
    },
    /// The parameters cannot be stored.
    #[error("the parameters cannot be stored: {0}")]
    Parameters(#[from] ValueError),
    /// The system returns no random name.
    #[error("the system gives no random bytes: {0}")]
    NoRandom(#[source] getrandom::Error),
    /// The journal did not take it.
    #[error(transparent)]
    Journal(#[from] Error),
}

fn ended(outcome: Option<&str>) -> String {
    outcome
        .map_or_else(|| "has not ended".to_owned(), |outcome| format!("has ended with {outcome}"))
}

/// The error of a caller while the journal is unreachable, full, or locked by another process.
const LATER: &str =
    "the journal cannot store the request now, so it was not accepted: repeat it later";

/// The error of a caller whose request was not submitted.
pub(crate) fn error_of_submit(error: &NotSubmitted) -> asyncsteps_core::Error {
    use asyncsteps_journal::Refused as No;
    match error {
        NotSubmitted::Refused(refused) => asyncsteps_core::Error::with_info(
            refused.code(),
            refused.text().unwrap_or_default().to_owned(),
        ),
        NotSubmitted::Journal(Error::Refused(No::TooManyWaiting { .. })) => {
            asyncsteps_core::Error::with_info(codes::DEFENSE_REJECTED, error.to_string())
        }
        NotSubmitted::KeyTaken { .. }
        | NotSubmitted::Parameters(_)
        | NotSubmitted::Journal(Error::Refused(_)) => {
            asyncsteps_core::Error::with_info(codes::INVALID_REQUEST, error.to_string())
        }
        NotSubmitted::Journal(cause) if cause.repeat() == Repeat::Later => {
            tracing::warn!(error = %cause, "the journal cannot store a durable request now");
            asyncsteps_core::Error::with_info(codes::DEFENSE_REJECTED, LATER)
        }
        NotSubmitted::NoFunction(_) | NotSubmitted::NoRandom(_) | NotSubmitted::Journal(_) => {
            tracing::error!(%error, "a durable request cannot be stored");
            asyncsteps_core::Error::with_info(codes::INTERNAL_ERROR, "The request cannot be stored")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_of_the_program_itself_needs_no_signature() {
        assert!(Options::default().caller.is_signed());
    }
}
