//! From a request to its reply: the checks, then the flow of the function (FTN6 §1).

use std::mem;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_actors::clock;
use asyncsteps_actors::flow::host_flow;
use asyncsteps_actors::record;
use asyncsteps_actors::sync::CallerFences;
use futures_util::future::LocalBoxFuture;

use super::check::{Admitted, Arrived, Checked};
use super::exchange::{Exchange, PendingReply};
use super::handle::{Executor, Shared};
use super::incoming::Incoming;
use super::outcome::RequestOutcome;
use super::over::{EndPhase, QueueTime, Timings, request_over};
use super::refused::Refused;
use super::reply::Reply;
use super::reply_context::ReplyContext;
use super::request::RequestInfo;
use super::request_flow_owner::RequestFlowOwner;
use super::request_parts::RequestParts;
use super::time_limit::TimeLimit;
use crate::observe;

impl Executor {
    /// Carries out a request on this arbiter: checks it in the order of FTN6, runs the flow of its
    /// function, and replies.
    ///
    /// The future ends with the reply, with [`ReplyBody::Nothing`](super::ReplyBody::Nothing) for a
    /// function without result, or as soon as the flow begins to write raw data. Called by a step,
    /// the request inherits the deadline of its flow. While the
    /// [`Budget`](asyncsteps_actors::budget::Budget) is used up the request is refused, or waits if
    /// the budget has a queue.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request: this is how a transport says that its client went
    /// away.
    ///
    /// # Panics
    /// Outside of an actix arbiter; other threads send a [`Dispatch`](super::Dispatch) to an
    /// [address](Self::address).
    #[expect(clippy::manual_async_fn, reason = "an async function has its arguments twice")]
    pub fn dispatch(&self, Incoming(incoming): Incoming) -> impl Future<Output = Reply> {
        async move {
            match self.begin(incoming) {
                Begun::Flow(reply) => reply.await,
                Begun::Refused(reply) => reply,
                Begun::Waits(reply) => reply.await,
            }
        }
    }

    /// Begins to carry out a request; its flow starts unless it has to wait before.
    fn begin(&self, mut incoming: Box<RequestInfo>) -> Begun<'_> {
        self.start_here();
        let mut times = Timings { arrived: clock::now(), queued: QueueTime::For(Duration::ZERO) };
        let mut reply_to = ReplyContext::new(&self.shared, &incoming.parts);
        if let Some(hooks) = &self.shared.config.hooks {
            hooks.request(&incoming.parts.request, &incoming.parts.channel);
        }
        match self.shared.admit(&mut incoming.parts, &mut reply_to, &mut times) {
            Ok(Arrived::Admitted(admitted)) => {
                Begun::Flow(self.start(reply_to, incoming, times, admitted))
            }
            // in a box, because most requests wait for nothing and need no room for it
            Ok(waits) => Begun::Waits(Box::pin(self.wait(reply_to, incoming, times, waits))),
            Err(refused) => {
                Begun::Refused(refuse(&reply_to, incoming.parts.request.f(), times, &refused))
            }
        }
    }

    /// Carries out a request that waits for something before its flow can start.
    async fn wait(
        &self,
        mut reply_to: ReplyContext,
        mut incoming: Box<RequestInfo>,
        mut times: Timings,
        waits: Arrived,
    ) -> Reply {
        let arrival =
            Arrival { incoming: &mut incoming.parts, reply_to: &mut reply_to, times: &mut times };
        match arrival.admit(&self.shared, waits).await {
            Ok(admitted) => self.start(reply_to, incoming, times, admitted).await,
            Err(refused) => refuse(&reply_to, incoming.parts.request.f(), times, &refused),
        }
    }

    /// Starts the flow of a request. Its first turn runs here and now.
    fn start(
        &self,
        reply_to: ReplyContext,
        mut incoming: Box<RequestInfo>,
        times: Timings,
        admitted: Admitted,
    ) -> PendingReply {
        let Admitted { checked, admission, deadline, patience } = admitted;
        let Checked { function, template, called, params } = checked;
        let (rid, trace) = (reply_to.rid.as_ref(), reply_to.trace.span);
        let span = observe::request_span(&called, rid, trace, times.arrived);
        let parts = &mut incoming.parts;
        let (memory, fences) = (parts.memory.take(), mem::take(&mut parts.fences));
        let limit = match memory {
            None => TimeLimit::new(deadline, patience),
            Some(_) => TimeLimit::fixed(None),
        };
        let received = parts.received();
        let called = (called, function);
        let exchange = Exchange::new(reply_to, called, received, times, span, admission, limit);
        let mut flow = template.flow();
        #[cfg(feature = "test")]
        if parts.undoes_twice {
            flow.undo_twice();
        }
        if let Some(call) = parts.call.take() {
            call.begin(&mut flow);
        }
        let recording = exchange.recording.as_ref().map(|recording| &recording.steps);
        let trace = exchange.reply_to.trace.span;
        record::observe(&mut flow, &exchange.span, Some(trace), recording);
        if !fences.is_empty() {
            flow.extend(CallerFences(fences));
        }
        let recorded = memory.as_ref().map(|memory| Arc::clone(&memory.id));
        if let Some(memory) = memory {
            flow.extend(memory);
        }
        (incoming.exchange, incoming.params) = (Some(Rc::clone(&exchange)), params);
        flow.extend_boxed(incoming);
        if let Some(flow) = host_flow(flow, RequestFlowOwner(Rc::clone(&exchange))) {
            if self.shared.grace_end.is_reached() {
                flow.cancel();
            }
            exchange.waits(flow, recorded);
        }
        PendingReply(exchange)
    }
}

/// A request that was dispatched.
enum Begun<'a> {
    /// Its flow has started.
    Flow(PendingReply),
    Refused(Reply),
    /// Its flow starts later.
    Waits(LocalBoxFuture<'a, Reply>),
}

/// A request that is not admitted yet; when it is dropped, its caller went away.
struct Arrival<'a> {
    incoming: &'a mut RequestParts,
    reply_to: &'a mut ReplyContext,
    times: &'a mut Timings,
}

impl Arrival<'_> {
    async fn admit(mut self, shared: &Shared, waits: Arrived) -> Result<Admitted, Refused> {
        let Self { incoming, reply_to, times } = &mut self;
        let admitted = shared.admitted(waits, incoming, reply_to, times).await;
        // the decision is reported elsewhere
        mem::forget(self);
        admitted
    }
}

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        let Self { incoming, reply_to, times } = self;
        let outcome = RequestOutcome::Disconnected;
        request_over(reply_to, incoming.request.f(), times.over(), &EndPhase::Left, outcome, None);
    }
}

/// The reply to a request that does not reach its function.
pub(super) fn refuse(
    reply_to: &ReplyContext,
    function: &str,
    times: Timings,
    refused: &Refused,
) -> Reply {
    let response = reply_to.complete(refused.to_response(), None);
    let outcome = RequestOutcome::of(&response);
    let stage = EndPhase::Refused(refused);
    request_over(reply_to, function, times.over(), &stage, outcome, Some(&response));
    reply_to.reply(response, None).with_refused(refused)
}
