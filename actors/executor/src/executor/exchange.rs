//! A request in flight: what its flow and whoever waits for its answer share. Both are on one
//! arbiter.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use asyncsteps::Time;
use slab::Slab;
use tracing::Span;

use super::admission::Flight;
use super::gate::Pass;
use super::registry::Target;
use super::reply::Reply;
use super::{Refused, Shared};
use crate::channel::Channel;
use crate::raw::RawFlow;
use crate::security::Signer;
use asyncsteps_actors::budget::Permit;
use asyncsteps_actors::clock;
use asyncsteps_actors::flow::FlowRef;
use asyncsteps_futoin::message::{Coding, Response, Rid};

/// How an answer must look, whatever it says.
pub(super) struct Origin {
    pub(super) shared: Arc<Shared>,
    pub(super) channel: Channel,
    pub(super) rid: Option<Rid>,
    pub(super) coding: Coding,
    /// `forcersp`: answer although there is no result.
    pub(super) forced: bool,
    pub(super) signer: Option<Arc<dyn Signer>>,
}

impl Origin {
    /// The answer as a message, with id and signature.
    pub(super) fn reply(&self, response: Response, target: Option<&Arc<Target>>) -> Reply {
        let mut response = response.with_rid(self.rid.as_ref());
        if let Some(signer) = &self.signer {
            let function = target.map(|target| target.function());
            let sec = signer.sign(&response.signed_fields(self.coding, function));
            response = response.with_sec(sec.into());
        }
        if let Some(hooks) = &self.shared.config.hooks {
            hooks.response(&response, &self.channel);
        }
        Reply::message(response, self.coding, target.cloned())
    }

    pub(super) fn refuse(&self, refused: Refused) -> Reply {
        let head = refused.head();
        self.reply(refused.into_response(), None).with_head(head)
    }
}

/// A request whose flow was started.
pub(super) struct Exchange {
    pub(super) origin: Origin,
    pub(super) target: Arc<Target>,
    pub(super) span: Span,
    /// When the flow is cancelled.
    deadline: Cell<Option<Time>>,
    /// How long raw data may stand still; zero if `cancel_after` decides.
    patience: Cell<Duration>,
    /// For how much of its patience the client did not send what it must, and since when its data is
    /// waited for.
    late: Cell<Duration>,
    waits: Cell<Option<Time>>,
    reply: RefCell<Option<Reply>>,
    /// Who waits for the reply, and then for the end of raw data.
    asker: RefCell<Option<Waker>>,
    /// The flow while it waits.
    flow: RefCell<Option<FlowRef>>,
    asked: Cell<Asked>,
    /// Whether the flow succeeded, once it is over.
    end: Cell<Option<bool>>,
    places: RefCell<Option<Places>>,
    live: Rc<Live>,
    place: Cell<Option<usize>>,
}

/// Who wants the answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Waits,
    /// The reply was taken.
    Answered,
    /// Nobody wants it any more.
    Gone,
}

/// What a request takes until it is answered.
pub(super) struct Places {
    pub(super) flight: Flight,
    pub(super) permit: Permit,
    pub(super) pass: Pass,
}

/// The waiting flows of one arbiter, so that closing can cancel them.
#[derive(Default)]
pub(super) struct Live {
    waiting: RefCell<Slab<Rc<Exchange>>>,
    cancelled: Cell<bool>,
}

impl Live {
    pub(super) fn cancel_all(&self) {
        self.cancelled.set(true);
        let waiting: Vec<Rc<Exchange>> =
            self.waiting.borrow().iter().map(|(_, exchange)| Rc::clone(exchange)).collect();
        waiting.iter().for_each(|exchange| exchange.cancel());
    }
}

impl Exchange {
    pub(super) fn new(
        origin: Origin,
        target: Arc<Target>,
        span: Span,
        places: Places,
        deadline: Time,
        patience: Duration,
        live: Rc<Live>,
    ) -> Rc<Self> {
        Rc::new(Self {
            origin,
            target,
            span,
            deadline: Cell::new(Some(deadline)),
            patience: Cell::new(patience),
            late: Cell::default(),
            waits: Cell::default(),
            reply: RefCell::default(),
            asker: RefCell::default(),
            flow: RefCell::default(),
            asked: Cell::new(Asked::Waits),
            end: Cell::default(),
            places: RefCell::new(Some(places)),
            live,
            place: Cell::default(),
        })
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.deadline.get()
    }

    /// Sets another deadline for good; `None` for no limit.
    pub(super) fn cancel_at(&self, deadline: Option<Time>) {
        self.deadline.set(deadline);
        self.patience.set(Duration::ZERO);
    }

    /// The flow waits: closing, or whoever asked and is gone, can cancel it from now on.
    pub(super) fn runs_as(self: &Rc<Self>, flow: FlowRef) {
        self.place.set(Some(self.live.waiting.borrow_mut().insert(Rc::clone(self))));
        self.flow.replace(Some(flow));
        if self.live.cancelled.get() || self.is_gone() {
            self.cancel();
        }
    }

    fn cancel(&self) {
        let flow = self.flow.borrow().clone();
        if let Some(flow) = flow {
            flow.cancel();
        }
    }

    /// Whether nobody wants the answer any more.
    pub(super) fn is_gone(&self) -> bool {
        self.asked.get() == Asked::Gone
    }

    /// Whether the answer was given already, as raw data that may go on.
    pub(super) fn is_answered(&self) -> bool {
        self.asked.get() == Asked::Answered || self.reply.borrow().is_some()
    }

    /// Answers, unless nobody wants it.
    pub(super) fn answer(&self, reply: Reply) {
        if self.is_gone() {
            return;
        }
        *self.reply.borrow_mut() = Some(reply);
        wake(&self.asker);
    }

    /// The flow is over: the places are free for others.
    pub(super) fn leave(&self, finished: bool, succeeded: bool) {
        // it refers to the exchange in turn
        drop(self.flow.take());
        if let Some(place) = self.place.take() {
            let exchange = self.live.waiting.borrow_mut().try_remove(place);
            debug_assert!(exchange.is_some(), "a flow waits once");
        }
        self.end.set(Some(succeeded));
        if let Some(Places { mut flight, permit, pass }) = self.places.take() {
            if finished {
                flight.finish();
            }
            drop((permit, pass));
        }
    }

    /// Tells who reads raw data that no more will come.
    pub(super) fn end(&self) {
        wake(&self.asker);
    }

    fn give_up(&self) {
        self.asked.set(Asked::Gone);
        // a reply that nobody took may refer to this
        drop(self.reply.take());
        if self.end.get().is_none() {
            self.cancel();
        }
    }
}

impl RawFlow for Exchange {
    fn progress(&self) {
        self.wait_for_client(Duration::ZERO);
    }

    fn wait_for_data(&self) {
        let patience = self.patience.get();
        if !patience.is_zero() && self.waits.get().is_none() {
            let now = clock::now();
            self.waits.set(Some(now));
            self.deadline.set(Some(now + patience.saturating_sub(self.late.get())));
        }
    }

    fn received(&self, bytes: usize) {
        if let Some(since) = self.waits.take() {
            let rate = self.origin.shared.config.upload_rate;
            let bought = (bytes as u64).saturating_mul(1_000_000).checked_div(rate);
            let bought = bought.map_or(Duration::MAX, Duration::from_micros);
            let late = self.late.get() + clock::now().saturating_since(since);
            self.late.set(late.saturating_sub(bought));
        }
        self.progress();
    }

    fn wait_for_client(&self, at_least: Duration) {
        let patience = self.patience.get();
        if !patience.is_zero() {
            self.deadline.set(Some(clock::now() + patience.max(at_least)));
        }
    }

    fn poll_end(&self, cx: &mut Context<'_>) -> Poll<bool> {
        match self.end.get() {
            Some(succeeded) => Poll::Ready(succeeded),
            None => {
                remember(&self.asker, cx);
                Poll::Pending
            }
        }
    }

    fn give_up(&self) {
        Self::give_up(self);
    }
}

/// Waits for the reply; dropping it cancels the flow.
pub(super) struct Asker(pub(super) Rc<Exchange>);

impl Future for Asker {
    type Output = Reply;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Reply> {
        let exchange = &self.0;
        match exchange.reply.take() {
            Some(reply) => {
                exchange.asked.set(Asked::Answered);
                Poll::Ready(reply)
            }
            None => {
                remember(&exchange.asker, cx);
                Poll::Pending
            }
        }
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        if self.0.asked.get() == Asked::Waits {
            self.0.give_up();
        }
    }
}

fn remember(place: &RefCell<Option<Waker>>, cx: &Context<'_>) {
    let mut place = place.borrow_mut();
    if !place.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
        *place = Some(cx.waker().clone());
    }
}

fn wake(place: &RefCell<Option<Waker>>) {
    // not while it is borrowed: a waker may run anything
    let waker = place.borrow_mut().take();
    if let Some(waker) = waker {
        waker.wake();
    }
}
