//! The actor context of a flow: actix's public API over a poll loop that costs a flow nothing
//! it does not use. The mailbox is made when somebody first asks for an address.

use std::cell::OnceCell;
use std::fmt;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};

use actix::dev::channel::channel;
use actix::dev::{Envelope, Mailbox, ToEnvelope};
use actix::fut::ActorFuture;
use actix::{
    Actor, ActorContext, ActorState, Addr, AsyncContext, Handler, Message, Running, SpawnHandle,
};
use tokio::sync::oneshot;

use super::FlowActor;

/// Room in a flow's mailbox. Senders that respect it (`try_send`) see it full beyond this; a flow
/// gets a handful of messages in its life.
const MAILBOX_CAPACITY: usize = 16;

/// The context of a [`FlowActor`].
///
/// It behaves as `actix::Context` does. Futures spawned on it and messages sent to its address are
/// polled together with the flow.
pub struct FlowContext {
    state: ActorState,
    shared: OnceCell<Box<Shared>>,
}

/// What only an actor with an address or with futures of its own needs.
struct Shared {
    address: Addr<FlowActor>,
    /// Taken out while it is polled.
    mailbox: Option<Mailbox<FlowActor>>,
    futures: Vec<Spawned>,
    last_handle: SpawnHandle,
}

struct Spawned {
    handle: SpawnHandle,
    /// The actor takes no messages until the future is done.
    blocks: bool,
    future: Pin<Box<dyn ActorFuture<FlowActor, Output = ()>>>,
}

/// An address for an actor that has none, and the mailbox behind it.
pub(super) fn mailbox() -> (Addr<FlowActor>, Mailbox<FlowActor>) {
    let (sender, receiver) = channel(MAILBOX_CAPACITY);
    (Addr::new(sender), Mailbox::new(receiver))
}

impl FlowContext {
    const fn new() -> Self {
        Self { state: ActorState::Started, shared: OnceCell::new() }
    }

    fn shared(&self) -> &Shared {
        self.shared.get_or_init(|| {
            let (address, mailbox) = mailbox();
            Box::new(Shared::new(address, mailbox))
        })
    }

    /// Takes a mailbox that was made for this actor outside, if it has none yet.
    fn adopt(&self, (address, mailbox): (Addr<FlowActor>, Mailbox<FlowActor>)) {
        self.shared.get_or_init(|| Box::new(Shared::new(address, mailbox)));
    }

    fn add<F>(&mut self, future: F, blocks: bool) -> SpawnHandle
    where
        F: ActorFuture<FlowActor, Output = ()> + 'static,
    {
        self.shared();
        let Some(shared) = self.shared.get_mut() else { return SpawnHandle::default() };
        shared.last_handle = shared.last_handle.next();
        let handle = shared.last_handle;
        shared.futures.push(Spawned { handle, blocks, future: Box::pin(future) });
        handle
    }

    fn is_blocked(&self) -> bool {
        let shared = self.shared.get();
        shared.is_some_and(|shared| shared.futures.iter().any(|spawned| spawned.blocks))
    }
}

impl Shared {
    fn new(address: Addr<FlowActor>, mailbox: Mailbox<FlowActor>) -> Self {
        Self {
            address,
            mailbox: Some(mailbox),
            futures: Vec::new(),
            last_handle: SpawnHandle::default(),
        }
    }
}

impl ActorContext for FlowContext {
    fn stop(&mut self) {
        if self.state.alive() {
            self.state = ActorState::Stopping;
        }
    }

    fn terminate(&mut self) {
        self.state = ActorState::Stopped;
    }

    fn state(&self) -> ActorState {
        self.state
    }
}

impl AsyncContext<FlowActor> for FlowContext {
    fn address(&self) -> Addr<FlowActor> {
        self.shared().address.clone()
    }

    fn spawn<F>(&mut self, future: F) -> SpawnHandle
    where
        F: ActorFuture<FlowActor, Output = ()> + 'static,
    {
        self.add(future, false)
    }

    fn wait<F>(&mut self, future: F)
    where
        F: ActorFuture<FlowActor, Output = ()> + 'static,
    {
        self.add(future, true);
    }

    fn waiting(&self) -> bool {
        !self.state.alive() || self.is_blocked()
    }

    fn cancel_future(&mut self, handle: SpawnHandle) -> bool {
        let Some(shared) = self.shared.get_mut() else { return false };
        let before = shared.futures.len();
        shared.futures.retain(|spawned| spawned.handle != handle);
        shared.futures.len() < before
    }
}

impl<M> ToEnvelope<FlowActor, M> for FlowContext
where
    FlowActor: Handler<M>,
    M: Message + Send + 'static,
    M::Result: Send,
{
    fn pack(message: M, reply: Option<oneshot::Sender<M::Result>>) -> Envelope<FlowActor> {
        Envelope::new(message, reply)
    }
}

impl fmt::Debug for FlowContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowContext").field("state", &self.state).finish_non_exhaustive()
    }
}

/// An actor with its context, as the task that the arbiter polls. The actor is boxed, because a
/// runtime moves a task several times until it is scheduled, and a flow is large.
struct Hosted {
    actor: Box<FlowActor>,
    ctx: FlowContext,
}

/// Runs an actor on this arbiter.
pub(super) fn spawn(actor: Box<FlowActor>) {
    actix_rt::spawn(Hosted { actor, ctx: FlowContext::new() });
}

impl Future for Hosted {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if this.ctx.state == ActorState::Started {
            this.ctx.state = ActorState::Running;
            this.actor.started(&mut this.ctx);
        }
        if let Some(mailbox) = this.actor.take_mailbox() {
            this.ctx.adopt(mailbox);
        }
        if this.ctx.shared.get().is_some() {
            this.poll_shared(cx);
        }
        if this.ctx.state.alive() && this.actor.poll_flow(cx).is_pending() {
            return Poll::Pending;
        }
        this.stop();
        Poll::Ready(())
    }
}

impl Hosted {
    /// Takes messages and polls spawned futures; futures before messages, as `wait` demands.
    fn poll_shared(&mut self, cx: &mut Context<'_>) {
        self.poll_futures(cx);
        let mailbox = self.ctx.shared.get_mut().and_then(|shared| shared.mailbox.take());
        let Some(mut mailbox) = mailbox else { return };
        mailbox.poll(&mut self.actor, &mut self.ctx, cx);
        if let Some(shared) = self.ctx.shared.get_mut() {
            shared.mailbox = Some(mailbox);
        }
        // messages may have added futures, and those have to see the waker once
        self.poll_futures(cx);
    }

    fn poll_futures(&mut self, cx: &mut Context<'_>) {
        let Some(shared) = self.ctx.shared.get_mut() else { return };
        let mut futures = mem::take(&mut shared.futures);
        futures.retain_mut(|spawned| {
            !self.ctx.state.alive()
                || spawned.future.as_mut().poll(&mut self.actor, &mut self.ctx, cx).is_pending()
        });
        if let Some(shared) = self.ctx.shared.get_mut() {
            let added = mem::replace(&mut shared.futures, futures);
            if !added.is_empty() {
                shared.futures.extend(added);
                cx.waker().wake_by_ref();
            }
        }
    }

    fn stop(&mut self) {
        if self.ctx.state == ActorState::Stopped {
            return;
        }
        self.ctx.state = ActorState::Stopping;
        // a flow that ended cannot go on, so there is nothing to ask the actor for
        let (Running::Stop | Running::Continue) = self.actor.stopping(&mut self.ctx);
        self.ctx.state = ActorState::Stopped;
        self.actor.stopped(&mut self.ctx);
    }
}

impl Drop for Hosted {
    /// The arbiter ends while the flow runs: the flow is cancelled and its locks are released.
    fn drop(&mut self) {
        self.stop();
    }
}
