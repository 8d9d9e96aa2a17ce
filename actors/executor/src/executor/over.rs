//! The end of a request: every request comes here once, however it ended.

use std::sync::Arc;
use std::time::Duration;

use asyncsteps_actors::clock;
use asyncsteps_actors::record::Recorded;
use asyncsteps_core::Time;
use asyncsteps_futoin::iface::FunctionName;
use asyncsteps_futoin::message::Response;
use tracing::Span;

use super::outcome::{RequestOutcome, RequestOver};
use super::refused::Refused;
use super::reply_context::ReplyContext;
use crate::observe::{self, Cut, LONGEST_VALUE, RequestRecord, RequestTrace, TraceParent};
use crate::security::User;

/// The times of a request.
#[derive(Clone, Copy)]
pub(super) struct Timings {
    pub(super) arrived: Time,
    pub(super) queued: QueueTime,
}

/// The time of a request in the queue of the budget.
#[derive(Clone, Copy)]
pub(super) enum QueueTime {
    /// It is there since then.
    Since(Time),
    For(Duration),
}

/// The times of a request that has ended.
#[derive(Clone, Copy)]
pub(super) struct Elapsed {
    pub(super) total: Duration,
    pub(super) queued: Duration,
}

impl Timings {
    /// The times of a request that ends now.
    pub(super) fn over(self) -> Elapsed {
        let total = clock::now().saturating_since(self.arrived);
        Elapsed { total, queued: self.queued.so_far() }
    }
}

impl QueueTime {
    pub(super) fn so_far(self) -> Duration {
        match self {
            Self::Since(at) => clock::now().saturating_since(at),
            Self::For(queued) => queued,
        }
    }
}

/// Where a request ended.
pub(super) enum EndPhase<'a> {
    /// Before its flow began.
    Refused(&'a Refused),
    /// Before its flow began, because its caller went away.
    Left,
    /// In its flow, which has this span.
    Flow(&'a Span),
}

/// Reports the end of a request to the log, the span and the hooks.
pub(super) fn request_over(
    reply_to: &ReplyContext,
    function: &str,
    took: Elapsed,
    stage: &EndPhase<'_>,
    outcome: RequestOutcome<'_>,
    response: Option<&Response>,
) {
    let Elapsed { total, queued } = took;
    let error = (outcome != RequestOutcome::Success).then(|| outcome.as_str());
    match &reply_to.function {
        Some(function) => function.counts.count(total, queued, error, reply_to.known_trace()),
        None => reply_to.shared.refused.count(outcome.as_str()),
    }
    match stage {
        EndPhase::Refused(refused) => {
            reply_to.shared.refusals.add(function, &reply_to.channel, refused);
            observe::refused(
                function,
                reply_to.rid.as_ref(),
                reply_to.trace.span,
                total,
                &reply_to.channel,
                refused.code(),
                refused.logged(),
            );
            export(reply_to, function, took, outcome);
        }
        EndPhase::Left => export(reply_to, function, took, outcome),
        EndPhase::Flow(span) => {
            span.record("outcome", outcome.as_str());
        }
    }
    let Some(hooks) = &reply_to.shared.config.hooks else { return };
    if let Some(response) = response {
        hooks.response(response, &reply_to.channel);
    }
    hooks.over(&RequestOver { function, user: reply_to.caller.user(), outcome, queued, total });
}

/// Exports a request that ended before its flow began. Without the name of a function there is nothing to report.
fn export(reply_to: &ReplyContext, function: &str, took: Elapsed, outcome: RequestOutcome<'_>) {
    let recorder = reply_to.shared.config.recorder.as_ref();
    let Some(recorder) = recorder.filter(|recorder| recorder.exports(reply_to.trace.span)) else {
        return;
    };
    if let Ok(function) = function.parse() {
        recorder.export(Arc::new(reply_to.record(recorder.number(), &function, took, outcome)));
    }
}

impl ReplyContext {
    /// The span of the request, if its trace can be looked at elsewhere: its caller has sampled it, or it
    /// is exported.
    fn known_trace(&self) -> Option<TraceParent> {
        let RequestTrace { span, is_callers, .. } = self.trace;
        let recorder = &self.shared.config.recorder;
        let is_known = || is_callers || recorder.as_ref().is_some_and(|it| it.exports(span));
        (span.is_sampled() && is_known()).then_some(span)
    }

    /// The record of a request that ended like this, without its flow.
    pub(super) fn record(
        &self,
        number: u64,
        function: &FunctionName,
        Elapsed { total, queued }: Elapsed,
        outcome: RequestOutcome<'_>,
    ) -> RequestRecord {
        RequestRecord {
            number,
            function: function.clone(),
            rid: self.rid.as_ref().map(|rid| Cut::text(rid, LONGEST_VALUE)),
            trace: self.trace.span,
            parent: self.trace.parent,
            user: self.caller.user().map(User::local_id).map(str::to_owned),
            channel: self.channel.kind(),
            arrived: clock::wall() - total,
            queued,
            started: None,
            total,
            outcome: outcome.as_str().to_owned(),
            steps: Recorded::default(),
        }
    }
}
