//! What a node has of the journal, until it gives that back. It knows neither requests nor entities.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use asyncsteps_actors::{clock, timer};
use asyncsteps_journal::limits::TEXT_BYTES;
use asyncsteps_journal::request::{Append, Claim, Claimed, Disposition, Loaded};
use asyncsteps_journal::{Epoch, Error, Journal, POLL, Repeat, Uid};

use crate::answered::answered;
use crate::held::{HeldFlows, HeldGuard};
use crate::last_append::last_append;
use crate::lease::Lease;
use crate::records::cut;
use crate::writer::{FlowWriter, RestingWriter};

/// A flow that a node has claimed. It is the node's until it is given back, or its lease has ended.
#[derive(Clone)]
pub(crate) struct Taken {
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) lease: Arc<Lease>,
    pub(crate) claimed: Claimed,
}

/// A flow that a node has loaded, with what appends to it.
pub(crate) struct Owned<W = Rc<FlowWriter>> {
    pub(crate) taken: Taken,
    pub(crate) held: HeldGuard,
    pub(crate) writer: W,
}

impl Taken {
    /// A flow that the node owns in this epoch, and that has killed none of its owners.
    pub(crate) fn new(
        journal: &Arc<dyn Journal>,
        lease: &Arc<Lease>,
        (uid, epoch): (Uid, Epoch),
    ) -> Self {
        let claimed = Claimed { uid, epoch, deaths: 0, is_suspect: false };
        Self { journal: Arc::clone(journal), lease: Arc::clone(lease), claimed }
    }

    /// Takes flows that no other node has.
    ///
    /// # Errors
    /// The errors of the journal.
    pub(crate) async fn claim(
        journal: &Arc<dyn Journal>,
        lease: &Arc<Lease>,
        claim: Claim,
    ) -> Result<Vec<Self>, Error> {
        // the same ticket yields the same flows
        let claimed = answered(|| journal.claim(claim.clone())).await?;
        let taken = |claimed| Self { journal: journal.clone(), lease: Arc::clone(lease), claimed };
        Ok(claimed.into_iter().map(taken).collect())
    }

    /// The flow as the journal has it.
    ///
    /// # Errors
    /// If it cannot be read, or the lease has ended.
    pub(crate) async fn load(&self) -> Result<Loaded, Error> {
        self.asked(async || self.journal.load(self.claimed.uid).await).await
    }

    /// Leaves it to an operator, for this reason.
    pub(crate) async fn pause(&self, reason: &str) {
        self.give_back(Disposition::Pause(cut(reason, TEXT_BYTES))).await;
    }

    /// Stores what becomes of it, of which nothing else is stored.
    pub(crate) async fn give_back(&self, then: Disposition) {
        self.append_last(last_append(self.claimed, then)).await;
    }

    /// Stores the last append to it.
    pub(crate) async fn append_last(&self, append: Append) {
        let append = async || self.journal.append(vec![append.clone()]).await;
        if let Err(error) = self.asked(append).await {
            tracing::error!(flow = %self.claimed.uid, %error, "the flow cannot be put aside");
        }
    }

    /// Repeats a request to the journal while the lease lasts: this node owns the flow, so no other one would take it.
    async fn asked<T>(&self, mut ask: impl AsyncFnMut() -> Result<T, Error>) -> Result<T, Error> {
        loop {
            let error = match ask().await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            if error.repeat() == Repeat::Never || self.lease.has_ended() {
                return Err(error);
            }
            let uid = self.claimed.uid;
            tracing::warn!(flow = %uid, %error, "the journal does not answer: trying again");
            timer::sleep_until(clock::now() + POLL).await;
        }
    }

    /// What appends to it, as this version of its program; it has seen the inbox up to this number.
    pub(crate) fn writer(&self, version: u32, (loaded, seen): (&Loaded, u64)) -> Rc<FlowWriter> {
        let Claimed { uid, epoch, .. } = self.claimed;
        FlowWriter::new(Arc::clone(&self.journal), (uid, epoch, version), loaded.next(), seen)
    }

    /// The node of this number has loaded it, under this name.
    pub(crate) fn own(
        self,
        (all, node, name): (&HeldFlows, u64, Arc<str>),
        version: u32,
        loaded: (&Loaded, u64),
    ) -> Owned {
        let writer = self.writer(version, loaded);
        let held = all.add(node, self.claimed, name);
        writer.hold(&held);
        Owned { taken: self, held, writer }
    }
}

impl<W> Owned<W> {
    pub(crate) fn uid(&self) -> Uid {
        self.taken.claimed.uid
    }

    pub(crate) fn lease(&self) -> &Lease {
        &self.taken.lease
    }
}

impl Owned {
    /// The same, when it may not be used for long.
    pub(crate) fn may_rest(self) -> Owned<RefCell<RestingWriter>> {
        let writer = RefCell::new(RestingWriter::Awake(self.writer));
        Owned { taken: self.taken, held: self.held, writer }
    }
}

impl Owned<RefCell<RestingWriter>> {
    /// What appends to it, which is made anew if it has rested.
    pub(crate) fn writer(&self, version: u32) -> Rc<FlowWriter> {
        let Claimed { uid, epoch, .. } = self.taken.claimed;
        let writer = self.writer.borrow_mut().awake(&self.taken.journal, (uid, epoch, version));
        writer.hold(&self.held);
        writer
    }

    /// Whether the node still has it, as far as that is known.
    pub(crate) fn is_valid(&self) -> bool {
        self.lease().is_valid() && !self.held.is_given() && !self.writer.borrow().has_stopped()
    }
}
