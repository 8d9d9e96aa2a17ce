//! The lease of a node: how long it owns its flows without asking.

use std::time::Duration;

use asyncsteps_actors::clock::Clock;
use asyncsteps_journal::{Error, Incarnation, Journal, LEASE, Reading, Refused, Registered};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use crate::left::JournalClock;
use crate::until::until;

/// The lease of a node, as far as the process knows it: the thread that renews it and the arbiter that relies on it
/// share it.
#[derive(Debug)]
pub(crate) struct Lease {
    /// The name of the node in this term.
    pub(crate) node: Incarnation,
    /// The request by which it was renewed last.
    request: Mutex<LeaseRequest>,
    sessions: watch::Receiver<u64>,
    renewed: Notify,
    /// The clock of the journal, which each renewal reads.
    pub(crate) clock: JournalClock,
}

/// A request for a lease, or for more of it: what was known before it.
#[derive(Clone, Copy, Debug)]
struct LeaseRequest {
    /// Begins when it is sent.
    asked: Clock,
    /// The number of the session: under another one, others may have ended the lease.
    session: u64,
}

impl LeaseRequest {
    /// One that is sent now.
    fn new(journal: &dyn Journal) -> Self {
        Self { asked: Clock::start(), session: *journal.session().borrow() }
    }
}

impl Lease {
    /// A lease for a node of this process; has the time of the journal `read`.
    pub(crate) async fn register(
        journal: &dyn Journal,
        read: impl FnOnce(Reading),
    ) -> Result<Self, Error> {
        let request = LeaseRequest::new(journal);
        let Registered { node, time } = journal.register(LEASE).await?;
        read(time);
        Ok(Self {
            node,
            request: Mutex::new(request),
            sessions: journal.session(),
            renewed: Notify::new(),
            clock: JournalClock::new(request.asked, time),
        })
    }

    /// Renews it as long as that works, and has each time of the journal `read`; completes when it has ended.
    pub(crate) async fn keep(&self, journal: &dyn Journal, read: impl Fn(Reading)) {
        loop {
            self.is_due().await;
            loop {
                if self.has_ended() {
                    return;
                }
                let request = LeaseRequest::new(journal);
                match timeout(self.left(), journal.renew(self.node, LEASE)).await {
                    Ok(Ok(time)) => {
                        read(time);
                        self.renew(request, time);
                        break;
                    }
                    Err(_) | Ok(Err(Error::Refused(Refused::NoLease(_)))) => return,
                    Ok(Err(error)) => {
                        tracing::warn!(%error, "the lease cannot be renewed: trying again");
                        sleep(LEASE / 20).await;
                    }
                }
            }
        }
    }

    /// It was renewed by this request.
    fn renew(&self, request: LeaseRequest, time: Reading) {
        *self.request.lock() = request;
        self.clock.read(request.asked, time);
        self.renewed.notify_waiters();
    }

    /// The time since it was asked for.
    pub(crate) fn age(&self) -> Duration {
        self.request.lock().asked.elapsed()
    }

    /// How much of it is left.
    pub(crate) fn left(&self) -> Duration {
        LEASE.saturating_sub(self.age())
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.left().is_zero()
    }

    /// Whether the node may rely on it: it has not ended, and nothing may have ended it early.
    pub(crate) fn is_valid(&self) -> bool {
        !self.has_ended() && !self.is_in_doubt()
    }

    /// Whether the process has lost the session under which it was asked for: then it is renewed at once.
    pub(crate) fn is_in_doubt(&self) -> bool {
        *self.sessions.borrow() != self.request.lock().session
    }

    /// Completes when it is to be renewed: as a third of it has passed, or it is in doubt.
    async fn is_due(&self) {
        let mut sessions = self.sessions.clone();
        let in_doubt = async {
            // a journal with one session for ever has nothing to send it by
            let is_other = |session: &u64| *session != self.request.lock().session;
            if sessions.wait_for(is_other).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        // whichever it is
        let _ = timeout(LEASE / 3, in_doubt).await;
    }

    /// Completes as soon as it is in no doubt, or has ended.
    pub(crate) async fn settled(&self) {
        let settled = || (!self.is_in_doubt()).then_some(());
        // whichever it is
        let _ = timeout(self.left(), until(&self.renewed, settled)).await;
    }

    /// Completes when the node may rely on it; never if it has ended: the node drops its flows.
    pub(crate) async fn valid(&self) {
        if !self.is_valid() {
            until(&self.renewed, || self.is_valid().then_some(())).await;
        }
    }

    /// Says in the log why the node has no lease any more.
    pub(crate) fn log_end(&self) {
        let left = self.left();
        let why = if left.is_zero() {
            "it has not renewed it in time, because the process was held up or the journal did not answer"
        } else {
            "the journal has ended it before its time, as it does when its clock jumps ahead again and again"
        };
        tracing::warn!(
            ?left,
            "the node has lost its lease: {why}; it gives its flows back and begins anew"
        );
    }
}
