//! The messages that the actors of locks take: for actors, for other arbiters and for code that is
//! no flow.

use std::pin::Pin;
use std::sync::Arc;

use actix::dev::{MessageResponse, OneshotSender};
use actix::{Actor, Message};
use asyncsteps_core::Error;

use super::load::LockReport;
use super::mutex::{LockGuard, LockTicket, UnlockError};

/// Asks a [`MutexActor`](super::MutexActor) or [`LimiterActor`](super::LimiterActor) for the lock.
///
/// The answer is the guard, when the turn has come, or `DefenseRejected` if the queue is full. A lock
/// whose answer cannot be delivered is free again.
///
/// # Cancel safety
/// Dropping the request leaves the queue, or releases the lock if its answer was in flight.
#[derive(Clone, Debug, Default)]
pub struct Lock {
    /// The key to lock, if not the object itself.
    pub key: Option<Arc<str>>,
}

impl Message for Lock {
    type Result = Result<LockGuard, Error>;
}

impl Lock {
    /// Asks for the lock of a key.
    #[must_use]
    pub fn key(key: impl Into<Arc<str>>) -> Self {
        Self { key: Some(key.into()) }
    }
}

/// Returns a lock to the [`MutexActor`](super::MutexActor) or [`LimiterActor`](super::LimiterActor)
/// that it came from.
#[derive(Clone, Debug)]
pub struct Unlock {
    /// The ticket from [`LockGuard::into_ticket`].
    pub ticket: LockTicket,
}

impl Message for Unlock {
    type Result = Result<(), UnlockError>;
}

/// Asks a [`ThrottleActor`](super::ThrottleActor) to enter: it answers when the entry is counted, or
/// with `DefenseRejected` if the queue is full.
///
/// # Cancel safety
/// Dropping the request leaves the queue; an entry that was counted stays counted.
#[derive(Clone, Debug, Default)]
pub struct Enter {
    /// The key to enter, if not the object itself.
    pub key: Option<Arc<str>>,
}

impl Message for Enter {
    type Result = Result<(), Error>;
}

impl Enter {
    /// Asks to enter the throttle of a key.
    #[must_use]
    pub fn key(key: impl Into<Arc<str>>) -> Self {
        Self { key: Some(key.into()) }
    }
}

/// Asks the actor of a mutex, throttle or limiter which keys are held and waited for.
#[derive(Clone, Copy, Debug)]
pub struct Inspect;

impl Message for Inspect {
    type Result = LockReport;
}

/// The answer to [`Lock`] or [`Enter`], which comes later; abandoned when the request is dropped.
#[derive(derive_more::Debug)]
#[debug("Deferred {{ .. }}")]
#[must_use = "the actor's mailbox sends it"]
pub struct Deferred<T>(Pin<Box<dyn Future<Output = Result<T, Error>>>>);

impl<T> Deferred<T> {
    pub(super) fn new(answer: impl Future<Output = Result<T, Error>> + 'static) -> Self {
        Self(Box::pin(answer))
    }
}

impl<A, M, T> MessageResponse<A, M> for Deferred<T>
where
    A: Actor,
    M: Message<Result = Result<T, Error>>,
    T: 'static,
{
    fn handle(self, _: &mut A::Context, reply: Option<OneshotSender<M::Result>>) {
        // the message was sent without waiting for its answer: a lock would be released at once
        let Some(mut reply) = reply else { return };
        actix_rt::spawn(async move {
            tokio::select! {
                biased;
                () = reply.closed() => {}
                // an answer that cannot be delivered is dropped, and with it the lock
                answer = self.0 => drop(reply.send(answer)),
            }
        });
    }
}
