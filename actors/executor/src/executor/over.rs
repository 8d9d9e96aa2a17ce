//! The end of a request: every request comes here once, however it ended.

use std::time::Duration;

use asyncsteps::Time;
use asyncsteps_actors::clock;
use asyncsteps_futoin::message::Response;
use tracing::Span;

use super::refused::Refused;
use super::reply_to::ReplyTo;
use crate::observe;
use crate::security::User;

/// A request that is over; for [`Hooks::over`](super::Hooks::over).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RequestOver<'a> {
    /// The function as the caller named it; of a refused request it may be any text.
    pub function: &'a str,
    /// The user who called; `None` for an anonymous caller, and for one whose credentials were
    /// refused.
    pub user: Option<&'a User>,
    /// How it ended.
    pub outcome: RequestOutcome<'a>,
    /// How long it waited in the queue of the [`Budget`](asyncsteps_actors::budget::Budget).
    pub queued: Duration,
    /// How long it took in all, from its arrival to its reply; with raw data, to the end of that.
    pub total: Duration,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there is no other way to end")]
pub enum RequestOutcome<'a> {
    /// Its function succeeded.
    Success,
    /// It was answered with this error code, by its function or by a check.
    Error(&'a str),
    /// Its caller went away before it was answered.
    Disconnected,
}

impl<'a> RequestOutcome<'a> {
    pub(super) fn of(response: &'a Response) -> Self {
        response.code().map_or(Self::Success, Self::Error)
    }

    /// The error code; `None` for a success and for a caller that went away.
    #[must_use]
    pub fn code(self) -> Option<&'a str> {
        match self {
            Self::Error(code) => Some(code),
            Self::Success | Self::Disconnected => None,
        }
    }

    /// The word that logs and traces have for it: the code, `success` or `disconnected`.
    #[must_use]
    pub fn as_str(self) -> &'a str {
        match self {
            Self::Success => "success",
            Self::Error(code) => code,
            Self::Disconnected => "disconnected",
        }
    }
}

/// The times of a request.
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub(super) arrived: Time,
    pub(super) queued: Duration,
}

/// Where a request ended.
pub(super) enum Stage<'a> {
    /// Before its flow began.
    Refused(&'a Refused),
    /// In its flow, which has this span.
    Flow(&'a Span),
}

/// Tells the log, the span and the hooks that a request is over.
pub(super) fn request_over(
    reply_to: &ReplyTo,
    function: &str,
    times: Times,
    stage: &Stage<'_>,
    outcome: RequestOutcome<'_>,
    response: Option<&Response>,
) {
    match stage {
        Stage::Refused(refused) => observe::refused(
            function,
            reply_to.rid.as_ref(),
            &reply_to.channel,
            refused.code(),
            refused.text(),
        ),
        Stage::Flow(span) => {
            span.record("outcome", outcome.as_str());
        }
    }
    let Some(hooks) = &reply_to.shared.config.hooks else { return };
    if let Some(response) = response {
        hooks.response(response, &reply_to.channel);
    }
    hooks.over(&RequestOver {
        function,
        user: reply_to.caller.user(),
        outcome,
        queued: times.queued,
        total: clock::now().saturating_since(times.arrived),
    });
}
