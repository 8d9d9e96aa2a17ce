//! PendingPermit: how much may run and wait at once, and fairness among clients.
//!
//! Mailboxes of actors are no limit, because `send` and `do_send` ignore their bounds. A [`Budget`] is
//! asked before anything starts: it admits a request, queues it, or refuses it at once.
//!
//! Each client has its own queue, and the queues take turns. When the queues are full, a client with
//! few requests in its queue displaces the latest request of the client with the most: a client that
//! sends too much delays and displaces only itself. A client may have all permits; but one that has
//! half of them gets no more while others wait.

mod client;
mod fair_queue;
mod limits;

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use asyncsteps::{Arg, Error, codes};
use tokio::sync::oneshot;

pub use client::Client;
pub use limits::{Limits, Usage};

use fair_queue::{Decision, FairQueue, Refusal, Ticket};

/// Admits requests up to its [`Limits`], from any thread; a cheap handle.
///
/// ```
/// use asyncsteps_actors::budget::{Budget, Client, Limits};
///
/// # actix::System::new().block_on(async {
/// let budget = Budget::new(Limits { concurrent: 1, queued: 0, ..Limits::default() });
/// let permit = budget.admit(&Client::from("ann"), 1_000).await.unwrap();
/// let refused = budget.admit(&Client::from("bob"), 1_000).await.unwrap_err();
/// assert_eq!(refused.code(), "DefenseRejected");
/// drop(permit);
/// assert!(budget.admit(&Client::from("bob"), 1_000).await.is_ok());
/// # });
/// ```
#[derive(Clone)]
pub struct Budget(Arc<Mutex<FairQueue<Waiter>>>);

/// Takes the permit of a request that waits.
type Waiter = oneshot::Sender<Permit>;

impl Budget {
    /// An unused budget.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self::with_most_of_client(limits, usize::MAX)
    }

    /// The same, where no client may have more than `most` permits, however many are free.
    #[must_use]
    pub fn with_most_of_client(limits: Limits, most: usize) -> Self {
        Self(Arc::new(Mutex::new(FairQueue::new(limits, most))))
    }

    /// Asks for a permit for a request that takes about `bytes`.
    ///
    /// This decides at once: the future is ready, unless the request waits in the queue.
    ///
    /// # Errors
    /// DefenseRejected at once if the budget is used up, and later if another client displaces the
    /// request from the queue.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the queue, or gives the permit back.
    pub fn admit(&self, client: &Client, bytes: usize) -> PendingPermit {
        let mut answer = None;
        let (entered, displaced) = self.queue().enter(client, bytes, || {
            let (waiter, told) = oneshot::channel();
            answer = Some(told);
            waiter
        });
        // dropping their waiters tells them
        drop(displaced);
        PendingPermit(match (entered, answer) {
            (Decision::Waits(ticket), Some(answer)) => {
                State::Waits(Waits { budget: self.clone(), ticket, answer })
            }
            (Decision::Admitted | Decision::Waits(_), _) => State::Decided(Some(Ok(Permit {
                budget: self.clone(),
                client: client.clone(),
                bytes,
            }))),
            (Decision::Refused(why), _) => State::Decided(Some(Err(refused(why)))),
        })
    }

    /// Memory of the budget for what has no permit yet, such as a body that arrives; none so far.
    #[must_use]
    pub fn reserve(&self) -> Reservation<'_> {
        Reservation { budget: self, bytes: 0 }
    }

    /// How the budget is used.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.queue().usage()
    }

    /// Whether it has neither a permit nor a place in the queue, or no memory: a request of a new client
    /// would be refused, or displace one of another client.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.queue().is_full()
    }

    fn queue(&self) -> MutexGuard<'_, FairQueue<Waiter>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Budget").field(&self.usage()).finish()
    }
}

/// Permission to run, of a [`Budget`]; given back when it is dropped.
#[derive(Debug)]
#[must_use = "dropping it gives the permit back"]
pub struct Permit {
    budget: Budget,
    client: Client,
    bytes: usize,
}

impl Permit {
    /// Corrects the estimate of the request to `bytes`.
    ///
    /// # Errors
    /// DefenseRejected if there is no room for them.
    pub fn resize(&mut self, bytes: usize) -> Result<(), Error> {
        if !self.budget.queue().resize(self.bytes, bytes) {
            return Err(refused(Refusal::Memory));
        }
        self.bytes = bytes;
        Ok(())
    }
}

/// Memory that is taken before there is a request to admit; given back when it is dropped.
#[derive(Debug)]
pub struct Reservation<'a> {
    budget: &'a Budget,
    bytes: usize,
}

impl Reservation<'_> {
    /// Takes `bytes` in all, if that is more than before.
    ///
    /// # Errors
    /// DefenseRejected if there is no room for them.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Error> {
        if bytes <= self.bytes {
            return Ok(());
        }
        if !self.budget.queue().resize(self.bytes, bytes) {
            return Err(refused(Refusal::Memory));
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // less is always possible
            let _ = self.budget.queue().resize(self.bytes, 0);
        }
    }
}

/// A permit can be the result of a step that awaits it.
impl Arg for Permit {}

impl Drop for Permit {
    fn drop(&mut self) {
        let next = self.budget.queue().leave(&self.client, self.bytes);
        if let Some((waiter, client, bytes)) = next {
            // if it is gone meanwhile, its permit comes back and goes to the next one
            let _ = waiter.send(Self { budget: self.budget.clone(), client, bytes });
        }
    }
}

/// Waits for a [`Permit`]; made by [`Budget::admit`].
#[derive(Debug)]
#[must_use = "dropping it leaves the queue"]
pub struct PendingPermit(State);

#[derive(Debug)]
enum State {
    Decided(Option<Result<Permit, Error>>),
    Waits(Waits),
}

#[derive(Debug)]
struct Waits {
    budget: Budget,
    ticket: Ticket,
    answer: oneshot::Receiver<Permit>,
}

impl PendingPermit {
    /// Whether the request waits in the queue.
    #[must_use]
    pub fn is_queued(&self) -> bool {
        matches!(&self.0, State::Waits(waits) if waits.answer.is_empty())
    }
}

impl Future for PendingPermit {
    type Output = Result<Permit, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            State::Decided(decision) => {
                Poll::Ready(decision.take().unwrap_or_else(|| Err(refused(Refusal::TooMany))))
            }
            State::Waits(waits) => Pin::new(&mut waits.answer)
                .poll(cx)
                .map(|told| told.map_err(|_| refused(Refusal::TooMany))),
        }
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        let waiter = self.budget.queue().withdraw(&self.ticket);
        drop(waiter);
    }
}

fn refused(why: Refusal) -> Error {
    let why = match why {
        Refusal::TooMany => "Too many requests",
        Refusal::Memory => "Too much memory",
    };
    Error::with_info(codes::DEFENSE_REJECTED, why)
}

const _: () = {
    const fn any_thread<T: Send + Sync>() {}
    any_thread::<Budget>();
    any_thread::<Permit>();
    any_thread::<PendingPermit>();
};
