//! PendingPermit: how much may run and wait at once, and fairness among clients.
//!
//! The mailbox of an actor is no limit, because senders can exceed its bound. A [`Budget`] is asked
//! before anything is started: it gives a permit, queues the request, or refuses it at once.
//!
//! Each client has its own queue, and the queues take turns. If all of them together are full, a
//! client with few requests in them displaces the latest request of the client with the most. So a
//! client that sends too much delays and displaces only its own requests. A client may have all
//! permits; but one that has half of them gets no more while others wait.

mod client;
mod fair_queue;
mod limits;

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use asyncsteps::{Arg, Error, codes};
use tokio::sync::oneshot;

pub use self::client::Client;
pub use self::limits::{Limits, Usage};

use self::fair_queue::{Entered, FairQueue, Reason, Ticket};

/// Gives permits to requests up to its [`Limits`], on any thread; a cheap handle.
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

/// Gets the permit of a request in the queue.
type Waiter = oneshot::Sender<Permit>;

impl Budget {
    /// A budget of which nothing is used yet.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self::with_most_of_client(limits, usize::MAX)
    }

    /// The same, with a limit of permits for each client, however many are free.
    #[must_use]
    pub fn with_most_of_client(limits: Limits, most: usize) -> Self {
        Self(Arc::new(Mutex::new(FairQueue::new(limits, most))))
    }

    /// Asks for a permit for a request that takes about `bytes`.
    ///
    /// This decides at once: the future is ready, unless the request waits in the queue.
    ///
    /// # Errors
    /// DefenseRejected at once if the budget is used up, and later if the request is displaced from
    /// the queue by another client.
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
            (Entered::Waits(ticket), Some(answer)) => {
                State::Waits(Waits { budget: self.clone(), ticket, answer })
            }
            (Entered::Permitted | Entered::Waits(_), _) => State::Decided(Some(Ok(Permit {
                budget: self.clone(),
                client: client.clone(),
                bytes,
            }))),
            (Entered::Refused(why), _) => State::Decided(Some(Err(refused(why)))),
        })
    }

    /// Memory of the budget for what has no permit yet, none so far.
    #[must_use]
    pub fn reserve(&self) -> Reservation<'_> {
        Reservation { budget: self, bytes: 0 }
    }

    /// How the budget is used.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.queue().usage()
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

/// A permit of a [`Budget`]; given back when it is dropped.
#[derive(Debug)]
#[must_use = "dropping it gives the permit back"]
pub struct Permit {
    budget: Budget,
    client: Client,
    bytes: usize,
}

impl Permit {
    /// Replaces the estimate: the request takes `bytes`.
    ///
    /// # Errors
    /// DefenseRejected if the budget has not so much memory left.
    pub fn resize(&mut self, bytes: usize) -> Result<(), Error> {
        if !self.budget.queue().resize(self.bytes, bytes) {
            return Err(refused(Reason::Memory));
        }
        self.bytes = bytes;
        Ok(())
    }
}

/// Memory that is taken before there is a request to admit, such as that of a body that is being
/// read; given back when it is dropped.
#[derive(Debug)]
pub struct Reservation<'a> {
    budget: &'a Budget,
    bytes: usize,
}

impl Reservation<'_> {
    /// Takes `bytes` in all, if that is more than before.
    ///
    /// # Errors
    /// DefenseRejected if the budget has not so much memory left.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Error> {
        if bytes <= self.bytes {
            return Ok(());
        }
        if !self.budget.queue().resize(self.bytes, bytes) {
            return Err(refused(Reason::Memory));
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
            // if the request is gone meanwhile, the permit is dropped and given to the next one
            let _ = waiter.send(Self { budget: self.budget.clone(), client, bytes });
        }
    }
}

/// Waits for a permit of a [`Budget`]; made by [`Budget::admit`].
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
                Poll::Ready(decision.take().unwrap_or_else(|| Err(refused(Reason::TooMany))))
            }
            State::Waits(waits) => Pin::new(&mut waits.answer)
                .poll(cx)
                .map(|told| told.map_err(|_| refused(Reason::TooMany))),
        }
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        let waiter = self.budget.queue().withdraw(&self.ticket);
        drop(waiter);
    }
}

fn refused(why: Reason) -> Error {
    let why = match why {
        Reason::TooMany => "Too many requests",
        Reason::Memory => "Too much memory",
    };
    Error::with_info(codes::DEFENSE_REJECTED, why)
}

const _: () = {
    const fn any_thread<T: Send + Sync>() {}
    any_thread::<Budget>();
    any_thread::<Permit>();
    any_thread::<PendingPermit>();
};
