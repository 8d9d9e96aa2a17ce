//! How a request ended.

use std::time::Duration;

use asyncsteps_futoin::message::Response;

use crate::security::User;

/// A request that has ended; for [`Hooks::over`](super::Hooks::over).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RequestOver<'a> {
    /// The function as the caller named it; of a refused request it may be any text.
    pub function: &'a str,
    /// The user; `None` for an anonymous caller, and for one whose credentials were
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
