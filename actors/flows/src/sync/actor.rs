//! Locking by message: for actors and for code that has an address instead of a handle.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use actix::dev::{MessageResponse, OneshotSender};
use actix::{Actor, Context, Handler, Message};
use asyncsteps::Error;

use super::{Limiter, Load, LockGuard, Mutex};

/// Asks a [`MutexActor`] or [`LimiterActor`] for the lock: it answers with the guard when the turn
/// has come, or with `DefenseRejected` if the queue is full.
///
/// Dropping the guard, anywhere, is the unlock message: it cannot get lost.
///
/// # Cancel safety
/// Dropping the request gives up the place in the queue, or the lock if it was on its way.
#[derive(Clone, Debug, Default, Message)]
#[rtype(result = "Result<LockGuard, Error>")]
pub struct Lock {
    /// The key to lock, if not the object itself.
    pub key: Option<Arc<str>>,
}

impl Lock {
    /// Asks for the lock of a key.
    #[must_use]
    pub fn key(key: impl Into<Arc<str>>) -> Self {
        Self { key: Some(key.into()) }
    }
}

/// Asks a [`ThrottleActor`](super::ThrottleActor) to enter: it answers when the entry is counted, or
/// with `DefenseRejected` if the queue is full.
///
/// # Cancel safety
/// Dropping the request gives up the place in the queue; an entry that was counted stays counted.
#[derive(Clone, Debug, Default, Message)]
#[rtype(result = "Result<(), Error>")]
pub struct Enter {
    /// The key to enter, if not the object itself.
    pub key: Option<Arc<str>>,
}

impl Enter {
    /// Asks to enter the throttle of a key.
    #[must_use]
    pub fn key(key: impl Into<Arc<str>>) -> Self {
        Self { key: Some(key.into()) }
    }
}

/// Asks the actor of any object how busy it is.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "Load")]
pub struct GetLoad;

/// What comes of [`Lock`] and [`Enter`], later; given up when nobody waits for it any more.
#[must_use = "the actor's mailbox sends it"]
pub struct Answer<T>(Pin<Box<dyn Future<Output = Result<T, Error>>>>);

impl<T> Answer<T> {
    pub(super) fn of(answer: impl Future<Output = Result<T, Error>> + 'static) -> Self {
        Self(Box::pin(answer))
    }
}

impl<T> fmt::Debug for Answer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").finish_non_exhaustive()
    }
}

impl<A, M, T> MessageResponse<A, M> for Answer<T>
where
    A: Actor,
    M: Message<Result = Result<T, Error>>,
    T: 'static,
{
    fn handle(self, _: &mut A::Context, reply: Option<OneshotSender<M::Result>>) {
        // a lock that nobody waits for would come free at once
        let Some(mut reply) = reply else { return };
        actix_rt::spawn(async move {
            tokio::select! {
                biased;
                () = reply.closed() => {}
                // whoever asked may be gone by now: what it does not get is dropped
                answer = self.0 => drop(reply.send(answer)),
            }
        });
    }
}

/// Takes [`Lock`] messages for a [`Mutex`]; any number of actors may serve the same one.
///
/// ```
/// # use actix::Actor;
/// # use asyncsteps_actors::sync::{Lock, Mutex, MutexActor};
/// # actix::System::new().block_on(async {
/// let stock = Mutex::new(Default::default());
/// let address = MutexActor::new(stock.clone()).start();
/// let apples = address.send(Lock::key("apple")).await.unwrap().unwrap();
/// assert_eq!(stock.load().holders, 1);
/// drop(apples);
/// assert_eq!(stock.load().holders, 0);
/// # });
/// ```
#[derive(Debug)]
pub struct MutexActor(Mutex);

impl MutexActor {
    /// An actor for this mutex, to be started.
    #[must_use]
    pub fn new(mutex: Mutex) -> Self {
        Self(mutex)
    }
}

impl Actor for MutexActor {
    type Context = Context<Self>;
}

impl Handler<Lock> for MutexActor {
    type Result = Answer<LockGuard>;

    fn handle(&mut self, Lock { key }: Lock, _: &mut Context<Self>) -> Answer<LockGuard> {
        let mutex = key.map_or_else(|| self.0.clone(), |key| self.0.key(key));
        Answer::of(async move { mutex.lock().await })
    }
}

impl Handler<GetLoad> for MutexActor {
    type Result = actix::MessageResult<GetLoad>;

    fn handle(&mut self, _: GetLoad, _: &mut Context<Self>) -> Self::Result {
        actix::MessageResult(self.0.load())
    }
}

/// Takes [`Lock`] messages for a [`Limiter`]: the answer comes when the rate allows it, too.
#[derive(Debug)]
pub struct LimiterActor(Limiter);

impl LimiterActor {
    /// An actor for this limiter, to be started.
    #[must_use]
    pub fn new(limiter: Limiter) -> Self {
        Self(limiter)
    }
}

impl Actor for LimiterActor {
    type Context = Context<Self>;
}

impl Handler<Lock> for LimiterActor {
    type Result = Answer<LockGuard>;

    fn handle(&mut self, Lock { key }: Lock, _: &mut Context<Self>) -> Answer<LockGuard> {
        let limiter = key.map_or_else(|| self.0.clone(), |key| self.0.key(key));
        Answer::of(async move { limiter.lock().await })
    }
}

impl Handler<GetLoad> for LimiterActor {
    type Result = actix::MessageResult<GetLoad>;

    fn handle(&mut self, _: GetLoad, _: &mut Context<Self>) -> Self::Result {
        actix::MessageResult(self.0.load())
    }
}
