//! Admission control and backpressure: how much may run and wait at once, and fairness among
//! clients.
//!
//! Mailboxes of actors are no limit, because `send` and `do_send` ignore their bounds. A [`Budget`] is
//! asked before anything starts: it admits a request, queues it, or refuses it at once.
//!
//! Each client has its own queue, and the queues take turns. When the queues are full, a client with
//! few requests in its queue displaces the latest request of the client with the most: a client that
//! sends too much delays and displaces only itself. A client may have all permits; but one that has
//! half of them gets no more while others wait.
//!
//! Memory held for clients that neither go on nor take their answers counts in the same limit, as a
//! [`Holding`]. When there is no memory left, such holdings are displaced.
//!
//! The feature `steps` makes refusals errors of steps (DefenseRejected), and permits their results.
#![forbid(unsafe_code)]

mod client;
mod fair_queue;
mod holdings;
mod limits;
mod signal;
#[cfg(feature = "steps")]
mod steps;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use parking_lot::Mutex;
use tokio::sync::oneshot;

pub use client::Client;
pub use fair_queue::BudgetRefusal;
pub use limits::{Limits, Usage};

use fair_queue::{AdmissionDecision, BudgetTicket, FairQueue};
use signal::HoldingSignal;

/// Admits requests up to its [`Limits`], from any thread; a cheap handle.
///
/// ```
/// use asyncsteps_budget::{Budget, BudgetRefusal, Client, Limits};
///
/// # futures_util::FutureExt::now_or_never(async {
/// let budget = Budget::new(Limits { concurrent: 1, queued: 0, ..Limits::default() });
/// let permit = budget.admit(&Client::from("ann"), 1_000).await.unwrap();
/// let refused = budget.admit(&Client::from("bob"), 1_000).await.unwrap_err();
/// assert_eq!(refused, BudgetRefusal::TooMany);
/// drop(permit);
/// assert!(budget.admit(&Client::from("bob"), 1_000).await.is_ok());
/// # }).unwrap();
/// ```
#[derive(Clone, derive_more::Debug)]
#[debug("Budget({:?})", self.usage())]
pub struct Budget(Arc<BudgetState>);

struct BudgetState {
    queue: Mutex<FairQueue<Waiter>>,
    /// Bytes from which on displaced holdings are waited for.
    most_leaving: usize,
    /// Bytes of holdings that were displaced and are not released yet.
    leaving: AtomicUsize,
}

/// The part of the memory that displaced holdings may still take before they are waited for.
const LEAVING: usize = 16;

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
        let queue = Mutex::new(FairQueue::new(limits, most));
        let (most_leaving, leaving) = (limits.memory / LEAVING, AtomicUsize::new(0));
        Self(Arc::new(BudgetState { queue, most_leaving, leaving }))
    }

    /// Asks for a permit for a request that takes about `bytes`.
    ///
    /// This decides at once: the future is ready, unless the request waits in the queue.
    ///
    /// # Errors
    /// A refusal at once if the budget is used up, and later if another client displaces the
    /// request from the queue.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the queue, or releases the permit.
    pub fn admit(&self, client: &Client, bytes: usize) -> PendingPermit {
        let mut answer = None;
        let (entered, displaced) = self.with(|queue| {
            queue.enter(client, bytes, || {
                let (waiter, told) = oneshot::channel();
                answer = Some(told);
                waiter
            })
        });
        // dropping their waiters notifies them
        drop(displaced);
        PendingPermit(match (entered, answer) {
            (AdmissionDecision::Waits(ticket), Some(answer)) => {
                AdmissionState::Waits(AdmissionWait { budget: self.clone(), ticket, answer })
            }
            (AdmissionDecision::Admitted | AdmissionDecision::Waits(_), _) => {
                AdmissionState::Decided(Some(Ok(Permit {
                    budget: self.clone(),
                    client: client.clone(),
                    bytes,
                })))
            }
            (AdmissionDecision::Refused(why), _) => AdmissionState::Decided(Some(Err(why))),
        })
    }

    /// Memory of the budget that is held for a client in addition to its permits, such as a body that
    /// arrives; none so far.
    #[must_use]
    pub fn hold(&self, client: &Client) -> Holding {
        Holding {
            budget: self.clone(),
            client: client.clone(),
            key: None,
            bytes: 0,
            waits: false,
            signal: Arc::default(),
        }
    }

    /// How the budget is used.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.0.queue.lock().usage()
    }

    /// Whether it has neither a permit nor a place in the queue, or no memory: a request of a new client
    /// would be refused, or displace one of another client.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.0.queue.lock().is_full()
    }

    /// Changes the queue, and notifies the owners of holdings that were displaced for it.
    fn with<R>(&self, change: impl FnOnce(&mut FairQueue<Waiter>) -> R) -> R {
        let mut queue = self.0.queue.lock();
        let result = change(&mut queue);
        let displaced = queue.take_displaced();
        drop(queue);
        for (bytes, signal) in displaced {
            self.0.leaving.fetch_add(bytes, Ordering::SeqCst);
            signal.notify();
        }
        result
    }
}

/// Permission to run, of a [`Budget`]; released when it is dropped.
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
    /// [`BudgetRefusal::Memory`] if there is no room for them.
    pub fn resize(&mut self, bytes: usize) -> Result<(), BudgetRefusal> {
        if !self.budget.with(|queue| queue.resize(self.bytes, bytes)) {
            return Err(BudgetRefusal::Memory);
        }
        self.bytes = bytes;
        Ok(())
    }
}

/// Memory that is held for a client in addition to its requests, such as a message that has begun or
/// an answer that is not sent; released when this is dropped. Made by [`Budget::hold`].
///
/// While it waits for its client it can be displaced, when memory is wanted and there is none: the
/// holding that has waited longest, of the client whose waiting holdings have the most bytes. Its bytes
/// are no longer counted then, and its owner has to release them at once.
#[derive(Debug)]
pub struct Holding {
    budget: Budget,
    client: Client,
    /// Its place in the budget, once it has had bytes.
    key: Option<usize>,
    bytes: usize,
    waits: bool,
    signal: Arc<HoldingSignal>,
}

impl Holding {
    /// Takes `bytes` in all. `waits` says whether it waits for its client from now on.
    ///
    /// # Errors
    /// [`BudgetRefusal::Memory`] if there is no room for them; it has as many as before then. Also if it was
    /// displaced.
    pub fn set(&mut self, bytes: usize, waits: bool) -> Result<(), BudgetRefusal> {
        self.change(bytes, waits, FairQueue::set_held)
    }

    /// The same for memory that is taken already: it counts even if there is no room for it.
    ///
    /// # Errors
    /// [`BudgetRefusal::Memory`] if it was displaced.
    pub fn set_taken(&mut self, bytes: usize, waits: bool) -> Result<(), BudgetRefusal> {
        self.change(bytes, waits, FairQueue::set_held_taken)
    }

    fn change(
        &mut self,
        bytes: usize,
        waits: bool,
        set: impl FnOnce(&mut FairQueue<Waiter>, usize, usize, bool) -> bool,
    ) -> Result<(), BudgetRefusal> {
        if (bytes, waits) == (self.bytes, self.waits) && !waits {
            return Ok(());
        }
        let Self { budget, client, key, signal, .. } = self;
        let is_set = budget.with(|queue| {
            if signal.is_displaced() {
                return false;
            }
            let key = *key.get_or_insert_with(|| queue.hold(client.clone(), Arc::clone(signal)));
            set(queue, key, bytes, waits)
        });
        if !is_set {
            return Err(BudgetRefusal::Memory);
        }
        (self.bytes, self.waits) = (bytes, waits);
        Ok(())
    }

    /// Whether it was displaced.
    #[must_use]
    pub fn is_displaced(&self) -> bool {
        self.signal.is_displaced()
    }

    /// Whether much was displaced that is not released yet: new requests should wait a turn.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        let BudgetState { most_leaving, leaving, .. } = &*self.budget.0;
        leaving.load(Ordering::Relaxed) > *most_leaving
    }

    /// The same; the task is woken when it is.
    #[must_use]
    pub fn poll_displaced(&self, cx: &Context<'_>) -> bool {
        self.signal.register(cx.waker());
        self.is_displaced()
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        let Some(key) = self.key else { return };
        let was_displaced = self.budget.with(|queue| {
            let was_displaced = self.is_displaced();
            if !was_displaced {
                queue.release(key);
            }
            was_displaced
        });
        if was_displaced {
            self.budget.0.leaving.fetch_sub(self.bytes, Ordering::SeqCst);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let next = self.budget.0.queue.lock().leave(&self.client, self.bytes);
        if let Some((waiter, client, bytes)) = next {
            // if it is gone meanwhile, its permit comes back and goes to the next one
            let _ = waiter.send(Self { budget: self.budget.clone(), client, bytes });
        }
    }
}

/// Waits for a [`Permit`]; made by [`Budget::admit`].
#[derive(Debug)]
#[must_use = "dropping it leaves the queue"]
pub struct PendingPermit(AdmissionState);

#[derive(Debug)]
enum AdmissionState {
    Decided(Option<Result<Permit, BudgetRefusal>>),
    Waits(AdmissionWait),
}

#[derive(Debug)]
struct AdmissionWait {
    budget: Budget,
    ticket: BudgetTicket,
    answer: oneshot::Receiver<Permit>,
}

impl PendingPermit {
    /// The decision, or the same if the request waits in the queue.
    ///
    /// # Errors
    /// The request in the queue.
    pub fn decided(self) -> Result<Result<Permit, BudgetRefusal>, Self> {
        match self.0 {
            AdmissionState::Decided(decision) => {
                Ok(decision.unwrap_or_else(|| Err(BudgetRefusal::TooMany)))
            }
            AdmissionState::Waits(_) => Err(self),
        }
    }
}

impl Future for PendingPermit {
    type Output = Result<Permit, BudgetRefusal>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            AdmissionState::Decided(decision) => {
                Poll::Ready(decision.take().unwrap_or_else(|| Err(BudgetRefusal::TooMany)))
            }
            AdmissionState::Waits(waits) => Pin::new(&mut waits.answer)
                .poll(cx)
                .map(|told| told.map_err(|_| BudgetRefusal::TooMany)),
        }
    }
}

impl Drop for AdmissionWait {
    fn drop(&mut self) {
        let waiter = self.budget.0.queue.lock().withdraw(&self.ticket);
        drop(waiter);
    }
}

const _: () = {
    const fn any_thread<T: Send + Sync>() {}
    any_thread::<Budget>();
    any_thread::<Holding>();
    any_thread::<Permit>();
    any_thread::<PendingPermit>();
};
