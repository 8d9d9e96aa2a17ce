//! PendingPermit: how much may run and wait at once, and fairness among clients.
//!
//! Mailboxes of actors are no limit, because senders may pass over their bounds. A [`Budget`] is
//! asked before anything is started: it lets in, has wait, or refuses at once.
//!
//! Each client has its own queue, and the queues take turns. If the whole queue is full, a client
//! with few requests in it takes the place of the latest request of the client with the most. So
//! one client that sends too much delays and displaces nobody but itself. A client may have all
//! places; but one that has half of them gets no more while others wait.

mod client;
mod line;

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use asyncsteps::{Arg, Error, codes};
use tokio::sync::oneshot;

pub use client::Client;

use line::{Entered, Lines, Refusal, Ticket};

/// How much may run and wait at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a new limit must be thought of by everybody")]
pub struct Limits {
    /// How many may be inside; 0 refuses everything.
    pub concurrent: usize,
    /// How many may wait to get in; 0 means no queue.
    pub queued: usize,
    /// How many bytes those inside and those that wait may take, as far as they were estimated.
    pub memory: usize,
}

impl Default for Limits {
    /// 10,000 inside and 256 MB: what a small server has to spare. 1,000 in the queue: enough for
    /// clients to take turns, and no wait for most of those that would time out in it.
    fn default() -> Self {
        Self { concurrent: 10_000, queued: 1_000, memory: 256 << 20 }
    }
}

/// How a budget is used now, and what it decided so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Inside now.
    pub running: usize,
    /// Waiting now.
    pub queued: usize,
    /// Bytes taken by both.
    pub memory: usize,
    /// Clients that have somebody waiting now.
    pub clients: usize,
    /// Let in so far.
    pub admitted: u64,
    /// Refused so far, those that had to give way in the queue included.
    pub refused: u64,
    /// Gone so far while they waited.
    pub withdrawn: u64,
}

/// Lets requests in up to its [`Limits`], from any thread; a cheap handle.
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
pub struct Budget(Arc<Mutex<Lines<Waiter>>>);

/// Whom to tell that it is in.
type Waiter = oneshot::Sender<Permit>;

impl Budget {
    /// A budget that nobody uses yet.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self::with_most_of_client(limits, usize::MAX)
    }

    /// The same, where no client may have more places than this, however many are free.
    #[must_use]
    pub fn with_most_of_client(limits: Limits, most: usize) -> Self {
        Self(Arc::new(Mutex::new(Lines::new(limits, most))))
    }

    /// Asks for a place inside for a request of so many bytes, an estimate.
    ///
    /// This decides at once: the future is ready, unless the request waits in the queue.
    ///
    /// # Errors
    /// DefenseRejected at once if the budget is used up, and later if the request has to give way in
    /// the queue to another client.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the queue, or gives the place back.
    pub fn admit(&self, client: &Client, bytes: usize) -> PendingPermit {
        let mut answer = None;
        let (entered, displaced) = self.lines().enter(client, bytes, || {
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
            (Entered::In | Entered::Waits(_), _) => State::Decided(Some(Ok(Permit {
                budget: self.clone(),
                client: client.clone(),
                bytes,
            }))),
            (Entered::Refused(why), _) => State::Decided(Some(Err(refused(why)))),
        })
    }

    /// Memory of the budget for what has no place yet, none so far.
    #[must_use]
    pub fn reserve(&self) -> Reservation<'_> {
        Reservation { budget: self, bytes: 0 }
    }

    /// How the budget is used.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.lines().usage()
    }

    fn lines(&self) -> MutexGuard<'_, Lines<Waiter>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Budget").field(&self.usage()).finish()
    }
}

/// A place inside of a [`Budget`]; given back when it is dropped.
#[derive(Debug)]
#[must_use = "dropping it gives the place back"]
pub struct Permit {
    budget: Budget,
    client: Client,
    bytes: usize,
}

impl Permit {
    /// The request takes so many bytes, as is known now.
    ///
    /// # Errors
    /// DefenseRejected if there is no room for them.
    pub fn resize(&mut self, bytes: usize) -> Result<(), Error> {
        if !self.budget.lines().resize(self.bytes, bytes) {
            return Err(refused(Refusal::Memory));
        }
        self.bytes = bytes;
        Ok(())
    }
}

/// Memory that is taken before there is a request to admit, such as that of a body that comes; given
/// back when it is dropped.
#[derive(Debug)]
pub struct Reservation<'a> {
    budget: &'a Budget,
    bytes: usize,
}

impl Reservation<'_> {
    /// Takes so many bytes in all, if that is more than before.
    ///
    /// # Errors
    /// DefenseRejected if there is no room for them.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Error> {
        if bytes <= self.bytes {
            return Ok(());
        }
        if !self.budget.lines().resize(self.bytes, bytes) {
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
            let _ = self.budget.lines().resize(self.bytes, 0);
        }
    }
}

/// A permit can be the result of a step that awaits it.
impl Arg for Permit {}

impl Drop for Permit {
    fn drop(&mut self) {
        let next = self.budget.lines().leave(&self.client, self.bytes);
        if let Some((waiter, client, bytes)) = next {
            // if it is gone meanwhile, its permit comes back and passes the place on
            let _ = waiter.send(Self { budget: self.budget.clone(), client, bytes });
        }
    }
}

/// Waits for a place inside of a [`Budget`]; made by [`Budget::admit`].
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
        let waiter = self.budget.lines().withdraw(&self.ticket);
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
