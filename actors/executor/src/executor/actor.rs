//! What an executor does for other arbiters and threads.

use std::future::ready;
use std::time::Duration;

use actix::{Context, Handler, ResponseFuture};
use asyncsteps_actors::clock::Clock;
use asyncsteps_actors::record::Recorded;
use futures_util::future::join_all;

use super::handle::{Executor, ExecutorActor};
use super::in_flight::InFlightRequest;
use super::messages::{Answer, CancelRequest, CancelRequests, Dispatch, InFlight, InspectSteps};
use super::refused::Refused;
use super::reply::Message;

/// How long an arbiter may take to answer: one that is stuck is left out.
const ANSWER_TIME: Duration = Duration::from_secs(1);

impl Executor {
    /// The requests in flight on all arbiters, with what each flow waits for.
    ///
    /// Requests that wait for a permit have no flow yet, so they are not among them:
    /// [`usage`](Self::usage) counts them. An arbiter that does not answer within a second is left
    /// out.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn in_flight(&self) -> Vec<InFlightRequest> {
        let actors = self.shared.actors().clone();
        let lists = actors.iter().map(|actor| {
            // the actor of an arbiter that ended has no requests
            async { tokio::time::timeout(ANSWER_TIME, actor.send(InFlight)).await.ok()?.ok() }
        });
        join_all(lists).await.into_iter().flatten().flatten().collect()
    }

    /// What the steps of a request have done: of one [in flight](Self::in_flight) until now, of one that
    /// was [kept](Self::recent) in all. `None` if it is neither, or its arbiter does not answer within a
    /// second.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn steps(&self, number: u64) -> Option<Recorded> {
        let actors = self.shared.actors().clone();
        let asked = actors.iter().map(|actor| async move {
            tokio::time::timeout(ANSWER_TIME, actor.send(InspectSteps { number }))
                .await
                .ok()?
                .ok()?
        });
        let in_flight = join_all(asked).await.into_iter().flatten().next();
        in_flight.or_else(|| {
            let kept = self.recent();
            kept.iter().find(|record| record.number == number).map(|record| record.steps.clone())
        })
    }

    /// Cancels a request [in flight](Self::in_flight) by its number, and gives whether there was such a
    /// flow: its cancel handlers run, what it has done is undone, and its caller gets InternalError. A
    /// request that is undone already goes on. Requests have numbers if they are
    /// [recorded](super::Builder::record).
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether the request is cancelled.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn cancel(&self, number: u64) -> bool {
        let actors = self.shared.actors().clone();
        let cancels = actors
            .iter()
            .map(|actor| tokio::time::timeout(ANSWER_TIME, actor.send(CancelRequest { number })));
        join_all(cancels).await.into_iter().any(|answer| matches!(answer, Ok(Ok(true))))
    }

    /// How long each arbiter of this executor took to answer a message just now: the time that
    /// anything waits there for its turn. One second for those that did not answer in it.
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
            let answered = tokio::time::timeout(ANSWER_TIME, actor.send(Answer)).await;
            answered.map_or(ANSWER_TIME, |_| clock.elapsed())
        });
        join_all(asked).await
    }

    /// Cancels the requests in flight on all arbiters.
    pub(super) async fn cancel_requests(&self) {
        let actors = self.shared.actors().clone();
        let cancels = actors.iter().map(|actor| {
            // what a stuck arbiter has in flight is cancelled when it gets to it
            tokio::time::timeout(ANSWER_TIME, actor.send(CancelRequests))
        });
        join_all(cancels).await;
    }
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
                return executor.carry_out(dispatch).await;
            };
            tokio::select! {
                message = executor.carry_out(dispatch) => message,
                // its sender is dropped with the call
                _ = wanted => None,
            }
        })
    }
}

impl Handler<InFlight> for ExecutorActor {
    type Result = Vec<InFlightRequest>;

    fn handle(&mut self, _: InFlight, _: &mut Context<Self>) -> Self::Result {
        self.requests.list()
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
