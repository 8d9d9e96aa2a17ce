//! The end of a request: every request comes here once, however it ended.

use std::time::Duration;

use asyncsteps::Time;
use asyncsteps_actors::clock;
use asyncsteps_futoin::message::Response;
use tracing::Span;

use super::outcome::{RequestOutcome, RequestOver};
use super::refused::Refused;
use super::reply_to::ReplyTo;
use crate::observe;

/// The times of a request.
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub(super) arrived: Time,
    pub(super) queued: Queued,
}

/// The time of a request in the queue of the budget.
#[derive(Clone, Copy)]
pub(super) enum Queued {
    /// It is there since then.
    Since(Time),
    For(Duration),
}

/// The times of a request that is over.
#[derive(Clone, Copy)]
pub(super) struct Took {
    pub(super) total: Duration,
    pub(super) queued: Duration,
}

impl Times {
    /// The times of a request that is over now.
    pub(super) fn over(self) -> Took {
        let total = clock::now().saturating_since(self.arrived);
        Took { total, queued: self.queued.so_far() }
    }
}

impl Queued {
    pub(super) fn so_far(self) -> Duration {
        match self {
            Self::Since(at) => clock::now().saturating_since(at),
            Self::For(queued) => queued,
        }
    }
}

/// Where a request ended.
pub(super) enum Stage<'a> {
    /// Before its flow began.
    Refused(&'a Refused),
    /// Before its flow began, because its caller went away.
    Left,
    /// In its flow, which has this span.
    Flow(&'a Span),
}

/// Tells the log, the span and the hooks that a request is over.
pub(super) fn request_over(
    reply_to: &ReplyTo,
    function: &str,
    Took { total, queued }: Took,
    stage: &Stage<'_>,
    outcome: RequestOutcome<'_>,
    response: Option<&Response>,
) {
    let error = (outcome != RequestOutcome::Success).then(|| outcome.as_str());
    match &reply_to.function {
        Some(function) => function.counts.count(total, queued, error, reply_to.trace),
        None => reply_to.shared.refused.count(outcome.as_str()),
    }
    match stage {
        Stage::Refused(refused) => {
            reply_to.shared.refusals.add(function, &reply_to.channel, refused);
            observe::refused(
                function,
                reply_to.rid.as_ref(),
                reply_to.trace,
                &reply_to.channel,
                refused.code(),
                refused.text(),
            );
        }
        Stage::Left => {}
        Stage::Flow(span) => {
            span.record("outcome", outcome.as_str());
        }
    }
    let Some(hooks) = &reply_to.shared.config.hooks else { return };
    if let Some(response) = response {
        hooks.response(response, &reply_to.channel);
    }
    hooks.over(&RequestOver { function, user: reply_to.caller.user(), outcome, queued, total });
}
