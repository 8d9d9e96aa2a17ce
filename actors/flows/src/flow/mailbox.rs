//! The mailbox of a flow's actor and the context that its message handlers get.
//!
//! Both are made when the address is first asked for, and dropped with the last address. A flow without
//! an address pays eight bytes for them.

use std::cell::{Cell, RefCell};
use std::mem;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use actix::dev::channel::{AddressReceiver, channel};
use actix::dev::{Envelope, Mailbox, OneshotSender, ToEnvelope};
use actix::fut::ActorFuture;
use actix::{
    Actor, ActorContext, ActorState, Addr, AsyncContext, Handler, Message, SpawnHandle, WeakAddr,
};

use super::guarded::discard;
use super::{Canceller, FlowActor};

/// Messages that wait before `try_send` is refused: actix's own default.
pub(crate) const CAPACITY: usize = 16;

/// The actor of a flow and the way to its mailbox: one allocation that the tasks of the flow and its
/// handles share.
pub(crate) struct FlowCell {
    /// Borrowed while the flow runs and while a message is handled.
    pub(super) actor: RefCell<FlowActor>,
    rare: Cell<Option<Box<Rare>>>,
}

/// The state that most flows do not need.
#[derive(Default)]
struct Rare {
    /// Set while there is a mailbox.
    address: Option<WeakAddr<FlowActor>>,
    /// There is no handle that takes the outcome, and the flow was not over when that went.
    is_unwanted: bool,
}

impl FlowCell {
    #[inline]
    pub(super) fn new(actor: FlowActor) -> Self {
        Self { actor: RefCell::new(actor), rare: Cell::default() }
    }

    /// The outcome is not wanted: an address may keep the actor for long.
    pub(super) fn forget_outcome(&self) {
        if !self.discard_outcome() {
            self.with_rare(|rare| rare.get_or_insert_default().is_unwanted = true);
        }
    }

    /// Drops the outcome if no handle takes it, now that the flow has ended.
    pub(super) fn discard_unwanted(&self) {
        if self.with_rare(|rare| rare.as_ref().is_some_and(|rare| rare.is_unwanted)) {
            self.discard_outcome();
        }
    }

    /// Drops the outcome if there is one; `false` if the flow is not over.
    fn discard_outcome(&self) -> bool {
        let outcome = match self.actor.try_borrow_mut() {
            Ok(mut actor) if actor.is_over() => actor.take_outcome(),
            // borrowed by the flow itself while it runs
            Ok(_) | Err(_) => return false,
        };
        if outcome.is_some() {
            discard(outcome);
        }
        true
    }

    #[inline]
    fn with_rare<R>(&self, look: impl FnOnce(&mut Option<Box<Rare>>) -> R) -> R {
        let mut rare = self.rare.take();
        let seen = look(&mut rare);
        self.rare.set(rare);
        seen
    }

    /// The address of the actor, with a mailbox that is made if there is none.
    ///
    /// # Panics
    /// Outside of an actix arbiter or a tokio `LocalSet`, if it makes the mailbox.
    pub(super) fn address(self: &Rc<Self>, canceller: &Canceller) -> Addr<FlowActor> {
        let known = self.with_rare(|rare| rare.as_ref()?.address.as_ref()?.upgrade());
        known.unwrap_or_else(|| {
            let (sender, messages) = channel(CAPACITY);
            self.receive(messages, canceller.clone());
            Addr::new(sender)
        })
    }

    /// Takes messages from a channel, as long as it has senders.
    pub(super) fn receive(
        self: &Rc<Self>,
        messages: AddressReceiver<FlowActor>,
        canceller: Canceller,
    ) {
        let mailbox = Mailbox::new(messages);
        let address = mailbox.address().downgrade();
        let own = address.clone();
        let before = self.with_rare(|rare| rare.get_or_insert_default().address.replace(own));
        drop(before);
        let ctx = FlowContext { cell: Rc::clone(self), address, canceller, futures: None };
        actix_rt::spawn(MailTask { ctx, mailbox });
    }
}

/// The poll loop of the mailbox of a [`FlowActor`].
struct MailTask {
    ctx: FlowContext,
    mailbox: Mailbox<FlowActor>,
}

impl Future for MailTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { ctx, mailbox } = &mut *self;
        let cell = Rc::clone(&ctx.cell);
        let mut actor = cell.actor.borrow_mut();
        while ctx.poll_waits(&mut actor, cx).is_ready() {
            mailbox.poll(&mut actor, ctx, cx);
            if !ctx.waiting() && !ctx.poll_spawned(&mut actor, cx) {
                break;
            }
        }
        if mailbox.connected() || ctx.has_futures() { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Drop for MailTask {
    /// Further messages are refused; a new address gets a new mailbox.
    fn drop(&mut self) {
        drop(self.ctx.cell.with_rare(|rare| rare.as_mut()?.address.take()));
    }
}

/// The context of a [`FlowActor`], for its message handlers.
///
/// Stopping the actor cancels the flow; the actor goes on to take messages.
#[derive(derive_more::Debug)]
#[debug("FlowContext {{ state: {:?}, .. }}", self.state())]
pub struct FlowContext {
    cell: Rc<FlowCell>,
    /// The address of the mailbox; it does not keep that open.
    address: WeakAddr<FlowActor>,
    canceller: Canceller,
    /// Futures of message handlers; most actors have none.
    futures: Option<Box<MailboxFutures>>,
}

type BoxFuture = Pin<Box<dyn ActorFuture<FlowActor, Output = ()>>>;

#[derive(Default)]
struct MailboxFutures {
    last: SpawnHandle,
    spawned: Vec<(SpawnHandle, BoxFuture)>,
    /// No message is handled before these are ready, the last one first.
    waits: Vec<BoxFuture>,
    cancelled: Vec<SpawnHandle>,
}

impl FlowContext {
    fn has_futures(&self) -> bool {
        let empty =
            |futures: &MailboxFutures| futures.spawned.is_empty() && futures.waits.is_empty();
        !self.futures.as_deref().is_none_or(empty)
    }

    fn poll_waits(&mut self, actor: &mut FlowActor, cx: &mut Context<'_>) -> Poll<()> {
        while let Some(mut wait) = self.futures.as_mut().and_then(|futures| futures.waits.pop()) {
            if wait.as_mut().poll(actor, self, cx).is_pending() {
                let waits = &mut self.futures.get_or_insert_default().waits;
                waits.push(wait);
                return Poll::Pending;
            }
        }
        Poll::Ready(())
    }

    /// Polls what handlers spawned; says whether that spawned or waits for more.
    fn poll_spawned(&mut self, actor: &mut FlowActor, cx: &mut Context<'_>) -> bool {
        let Some(futures) = &mut self.futures else { return false };
        let mut spawned = mem::take(&mut futures.spawned);
        spawned.retain_mut(|(handle, future)| {
            !self.is_cancelled(*handle) && future.as_mut().poll(actor, self, cx).is_pending()
        });
        let futures = self.futures.get_or_insert_default();
        let has_more = !futures.spawned.is_empty() || !futures.waits.is_empty();
        spawned.append(&mut futures.spawned);
        let cancelled = mem::take(&mut futures.cancelled);
        spawned.retain(|(handle, _)| !cancelled.contains(handle));
        futures.spawned = spawned;
        has_more
    }

    fn is_cancelled(&self, handle: SpawnHandle) -> bool {
        self.futures.as_ref().is_some_and(|futures| futures.cancelled.contains(&handle))
    }
}

impl Actor for FlowActor {
    type Context = FlowContext;
}

impl ActorContext for FlowContext {
    /// Cancels the flow.
    fn stop(&mut self) {
        self.canceller.cancel();
    }

    fn terminate(&mut self) {
        self.stop();
    }

    fn state(&self) -> ActorState {
        // borrowed by the handler that asks: then the flow may run
        let over = self.cell.actor.try_borrow().is_ok_and(|actor| actor.is_over());
        if over { ActorState::Stopped } else { ActorState::Running }
    }
}

impl AsyncContext<FlowActor> for FlowContext {
    fn spawn<F>(&mut self, future: F) -> SpawnHandle
    where
        F: ActorFuture<FlowActor, Output = ()> + 'static,
    {
        let futures = self.futures.get_or_insert_default();
        futures.last = futures.last.next();
        futures.spawned.push((futures.last, Box::pin(future)));
        futures.last
    }

    fn wait<F>(&mut self, future: F)
    where
        F: ActorFuture<FlowActor, Output = ()> + 'static,
    {
        self.futures.get_or_insert_default().waits.push(Box::pin(future));
    }

    fn waiting(&self) -> bool {
        self.futures.as_ref().is_some_and(|futures| !futures.waits.is_empty())
    }

    fn cancel_future(&mut self, handle: SpawnHandle) -> bool {
        self.futures.get_or_insert_default().cancelled.push(handle);
        true
    }

    fn address(&self) -> Addr<FlowActor> {
        self.address.upgrade().unwrap_or_else(|| unreachable!("its mailbox is being read"))
    }
}

impl<M> ToEnvelope<FlowActor, M> for FlowContext
where
    FlowActor: Handler<M>,
    M: Message<Result: Send> + Send + 'static,
{
    fn pack(message: M, reply: Option<OneshotSender<M::Result>>) -> Envelope<FlowActor> {
        Envelope::new(message, reply)
    }
}
