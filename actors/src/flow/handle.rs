//! Waiting for a flow, and cancelling it, from the arbiter that runs it.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use actix::Addr;
use actix::dev::Mailbox;
use asyncsteps::{Arguments, Error, Execution, Flow, Outcome};
use tracing::Span;

use super::{End, FlowActor, Owner, context, host, host_later};

/// Starts a flow on this arbiter (FTN12 §2.2.3 `execute`, `promise`).
///
/// The first turn runs before this returns; a flow that completes in it costs no actor and no
/// task. The handle is a future with the typed result.
///
/// # Panics
/// Outside of an actix arbiter or a tokio `LocalSet`, if the flow has to wait.
pub fn start_flow<A: Arguments>(flow: Flow) -> FlowHandle<A> {
    let link = Rc::new(Link::default());
    host(flow, Rc::<Link>::clone(&link), Span::current());
    FlowHandle { link, detached: false, of: PhantomData }
}

/// Like [`start_flow`], but the first turn runs when the arbiter gets to it.
///
/// # Panics
/// Outside of an actix arbiter or a tokio `LocalSet`.
pub fn spawn_flow<A: Arguments>(flow: Flow) -> FlowHandle<A> {
    let link = Rc::new(Link::default());
    host_later(flow, Rc::<Link>::clone(&link));
    FlowHandle { link, detached: false, of: PhantomData }
}

/// A started flow: a future with its result. Dropping the handle cancels the flow.
///
/// # Cancel safety
/// Polling may stop at any time; the result stays until it is taken.
#[must_use = "dropping the handle cancels the flow; `detach` it to let it run"]
pub struct FlowHandle<A = ()> {
    link: Rc<Link>,
    detached: bool,
    of: PhantomData<fn() -> A>,
}

/// What a handle and the actor of its flow share.
#[derive(Default)]
struct Link {
    state: RefCell<State>,
    cancelled: Cell<bool>,
    /// Made when the handle is asked for an address.
    addressed: RefCell<Option<Box<Addressed>>>,
}

struct Addressed {
    address: Addr<FlowActor>,
    /// Until the actor adopts it.
    mailbox: Option<Mailbox<FlowActor>>,
}

#[derive(Default)]
struct State {
    outcome: Option<Outcome>,
    done: bool,
    /// Waits for the outcome.
    handle: Option<Waker>,
    /// Polls the flow.
    actor: Option<Waker>,
}

impl Link {
    fn wake_actor(&self) {
        let waker = self.state.borrow_mut().actor.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<A> FlowHandle<A> {
    /// Cancels the flow (FTN12 §2.2.3 `cancel`): asynchronously, on its arbiter.
    pub fn cancel(&self) {
        self.link.cancelled.set(true);
        self.link.wake_actor();
    }

    /// Whether the flow is not over.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.link.state.borrow().done
    }

    /// Lets the flow run to its end without anybody waiting for it.
    pub fn detach(mut self) {
        self.detached = true;
    }

    /// The address of the flow's actor, for other arbiters: it takes [`Cancel`](super::Cancel) and
    /// [`Inspect`](super::Inspect).
    #[must_use]
    pub fn address(&self) -> Addr<FlowActor> {
        if let Some(addressed) = &*self.link.addressed.borrow() {
            return addressed.address.clone();
        }
        let (address, mailbox) = context::mailbox();
        let addressed = Addressed { address: address.clone(), mailbox: Some(mailbox) };
        *self.link.addressed.borrow_mut() = Some(Box::new(addressed));
        self.link.wake_actor();
        address
    }
}

impl<A: Arguments> Future for FlowHandle<A> {
    /// The typed result of the flow, or the error that ended it.
    type Output = Result<A, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.link.state.borrow_mut();
        match state.outcome.take() {
            Some(outcome) => Poll::Ready(outcome.into_result()),
            None if state.done => Poll::Ready(Outcome::Cancelled.into_result()),
            None => {
                state.handle = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl<A> Drop for FlowHandle<A> {
    fn drop(&mut self) {
        if !self.detached && self.is_valid() {
            self.cancel();
        }
    }
}

impl<A> fmt::Debug for FlowHandle<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowHandle").field("valid", &self.is_valid()).finish()
    }
}

impl Owner for Link {
    fn is_gone(&self) -> bool {
        self.cancelled.get()
    }

    fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.cancelled.get() {
            return Poll::Ready(());
        }
        let mut state = self.state.borrow_mut();
        if !state.actor.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            state.actor = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    fn take_mailbox(&self) -> Option<(Addr<FlowActor>, Mailbox<FlowActor>)> {
        let mut addressed = self.addressed.borrow_mut();
        let addressed = addressed.as_mut()?;
        Some((addressed.address.clone(), addressed.mailbox.take()?))
    }

    fn ended(&self, _: &mut Execution, end: End) {
        let waker = {
            let mut state = self.state.borrow_mut();
            state.done = true;
            state.actor = None;
            state.outcome = Some(match end {
                End::Flow(outcome) => outcome,
                End::Expired | End::Gone => Outcome::Cancelled,
            });
            state.handle.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
