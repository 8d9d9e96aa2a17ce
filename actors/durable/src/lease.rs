//! The lease of a node: how long it owns its flows without asking.

use std::cell::Cell;
use std::time::Duration;

use asyncsteps_actors::{clock, timer};
use asyncsteps_core::Time;
use asyncsteps_journal::{Incarnation, Journal, Reading};
use tokio::sync::{Notify, watch};

use crate::left::JournalClock;
use crate::until::until;

/// The lease of a node, as far as the node knows it.
#[derive(Debug)]
pub(crate) struct Lease {
    /// The name of the node in this term.
    pub(crate) node: Incarnation,
    until: Cell<Time>,
    /// The number of the session before it was asked for: under another one, others may have ended it.
    session: Cell<u64>,
    sessions: watch::Receiver<u64>,
    renewed: Notify,
    /// The clock of the journal, which each renewal reads.
    pub(crate) clock: JournalClock,
}

/// A request for a lease, or for more of it: what was known before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseRequest {
    asked: Time,
    session: u64,
}

impl LeaseRequest {
    /// One that is sent now.
    pub(crate) fn new(journal: &dyn Journal) -> Self {
        Self { asked: clock::now(), session: *journal.session().borrow() }
    }
}

impl Lease {
    /// A lease that was asked for by this request.
    pub(crate) fn new(
        node: Incarnation,
        LeaseRequest { asked, session }: LeaseRequest,
        lease: Duration,
        (time, journal): (Reading, &dyn Journal),
    ) -> Self {
        Self {
            node,
            until: Cell::new(asked + lease),
            session: Cell::new(session),
            sessions: journal.session(),
            renewed: Notify::new(),
            clock: JournalClock::new(asked, time),
        }
    }

    /// It was renewed by this request.
    pub(crate) fn renew(&self, request: LeaseRequest, lease: Duration, time: Reading) {
        self.until.set(request.asked + lease);
        self.session.set(request.session);
        self.clock.read(request.asked, time);
        self.renewed.notify_waiters();
    }

    pub(crate) fn until(&self) -> Time {
        self.until.get()
    }

    /// Whether the node may rely on it: it has not ended, and nothing may have ended it early.
    pub(crate) fn is_valid(&self) -> bool {
        clock::now() < self.until.get() && !self.is_in_doubt()
    }

    /// Whether the process has lost the session under which it was asked for: then it is renewed at once.
    pub(crate) fn is_in_doubt(&self) -> bool {
        *self.sessions.borrow() != self.session.get()
    }

    /// Completes when it is to be renewed: as a third of it has passed, or it is in doubt.
    pub(crate) async fn is_due(&self, lease: Duration) {
        let mut sessions = self.sessions.clone();
        let in_doubt = async {
            // a journal with one session for ever has nothing to send it by
            if sessions.wait_for(|session| *session != self.session.get()).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            () = in_doubt => {}
            () = timer::sleep_until(clock::now() + lease / 3) => {}
        }
    }

    /// Completes as soon as it is in no doubt, or has ended.
    pub(crate) async fn settled(&self) {
        let settled = || (!self.is_in_doubt()).then_some(());
        tokio::select! {
            biased;
            () = until(&self.renewed, settled) => {}
            () = timer::sleep_until(self.until.get()) => {}
        }
    }

    /// Completes when the node may rely on it; never if it has ended: the node drops its flows.
    pub(crate) async fn valid(&self) {
        if !self.is_valid() {
            until(&self.renewed, || self.is_valid().then_some(())).await;
        }
    }
}
