//! The services of an executor for other arbiters and threads.

use std::future::ready;
use std::time::Duration;

use actix::{Addr, Context, Handler, Message as ActixMessage, ResponseFuture};
use asyncsteps_actors::clock::Clock;
use asyncsteps_actors::record::Recorded;
use futures_util::future::join_all;

use super::handle::{Executor, ExecutorActor};
use super::messages::{Answer, CancelRequest, CancelRequests, Dispatch, InspectSteps};
use super::refused::Refused;
use super::reply::Message;

impl Executor {
    /// How long an arbiter may take to answer: one that is stuck is left out.
    pub(crate) const ANSWER_TIME: Duration = Duration::from_secs(1);

    /// The history of the steps of a request: until now if it is [in flight](Self::in_flight), complete
    /// if it was [kept](Self::recent). `None` if it is neither, or its arbiter does not answer within a
    /// second.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn steps(&self, number: u64) -> Option<Recorded> {
        let actors = self.shared.actors().clone();
        let asked = actors.iter().map(|actor| answer(actor, InspectSteps { number }));
        let in_flight = join_all(asked).await.into_iter().flatten().flatten().next();
        in_flight.or_else(|| {
            let kept = self.recent();
            kept.iter().find(|record| record.number == number).map(|record| record.steps.clone())
        })
    }

    /// Cancels a request [in flight](Self::in_flight) by its number, and returns whether there was such
    /// a flow: its cancel handlers run, what it has done is undone, and its caller gets InternalError.
    /// A request whose undo has begun goes on. Requests have numbers if they are
    /// [recorded](super::Builder::record).
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether the request is cancelled.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn cancel(&self, number: u64) -> bool {
        let actors = self.shared.actors().clone();
        let cancels = actors.iter().map(|actor| answer(actor, CancelRequest { number }));
        join_all(cancels).await.contains(&Some(true))
    }

    /// How long each arbiter of this executor took to answer a message just now: the time that
    /// anything waits there for its turn. One second for an arbiter that did not answer within it.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn arbiter_delays(&self) -> Vec<Duration> {
        let actors = self.shared.actors().clone();
        let alive = actors.iter().filter(|actor| actor.connected());
        let asked = alive.map(|actor| async move {
            let clock = Clock::start();
            let answered = tokio::time::timeout(Self::ANSWER_TIME, actor.send(Answer)).await;
            answered.map_or(Self::ANSWER_TIME, |_| clock.elapsed())
        });
        join_all(asked).await
    }

    /// Cancels the requests in flight on all arbiters.
    pub(super) async fn cancel_requests(&self) {
        let actors = self.shared.actors().clone();
        // a stuck arbiter cancels its requests when it gets to that
        join_all(actors.iter().map(|actor| answer(actor, CancelRequests))).await;
    }
}

/// The answer of an arbiter; `None` if it does not answer in time, or has ended.
pub(super) async fn answer<M>(actor: &Addr<ExecutorActor>, message: M) -> Option<M::Result>
where
    M: ActixMessage + Send + 'static,
    M::Result: Send,
    ExecutorActor: Handler<M>,
{
    tokio::time::timeout(Executor::ANSWER_TIME, actor.send(message)).await.ok()?.ok()
}

impl Handler<Dispatch> for ExecutorActor {
    type Result = ResponseFuture<Option<Message>>;

    fn handle(&mut self, mut dispatch: Dispatch, _: &mut Context<Self>) -> Self::Result {
        let Some(shared) = self.executor.upgrade() else {
            let Dispatch { request, .. } = dispatch;
            let refused = Message::refused(&Refused::closing(), request.rid(), request.coding());
            return Box::pin(ready(Some(refused)));
        };
        Box::pin(async move {
            let executor = Executor { shared };
            let Some(wanted) = dispatch.wanted.take() else {
                return executor.carry_out(dispatch.into_incoming()).await;
            };
            tokio::select! {
                biased;
                message = executor.carry_out(dispatch.into_incoming()) => message,
                // its sender is dropped with the call
                _ = wanted => None,
            }
        })
    }
}

impl Handler<InspectSteps> for ExecutorActor {
    type Result = Option<Recorded>;

    fn handle(
        &mut self,
        InspectSteps { number }: InspectSteps,
        _: &mut Context<Self>,
    ) -> Self::Result {
        self.requests.steps(number)
    }
}

impl Handler<CancelRequest> for ExecutorActor {
    type Result = bool;

    fn handle(
        &mut self,
        CancelRequest { number }: CancelRequest,
        _: &mut Context<Self>,
    ) -> Self::Result {
        self.requests.cancel(number)
    }
}

impl Handler<Answer> for ExecutorActor {
    type Result = ();

    fn handle(&mut self, Answer: Answer, _: &mut Context<Self>) {}
}

impl Handler<CancelRequests> for ExecutorActor {
    type Result = ();

    fn handle(&mut self, _: CancelRequests, _: &mut Context<Self>) {
        self.requests.cancel_all();
    }
}
