//! This node: its lease, and the locks that it has.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_actors::clock;
use asyncsteps_actors::watched::WatchedValue;
use tokio::runtime::Handle;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{Mutex, oneshot};
use tokio::time::sleep;

use crate::config::Config;
use crate::error::Error;
use crate::hold::{Hold, LockHolds, Return};
use crate::keys::StateTable;
use crate::lease_term::LeaseTerm;
use crate::notices::Notices;
use crate::store::{LockId, LockStore, SESSION_PART, Taken};

/// The number of renewals after which unused rows are removed.
const TRIM: u64 = 100;

/// The state that the tasks of a node and its locks share.
#[derive(derive_more::Debug)]
#[debug("ClusterNode {{ state: {state:?}, .. }}")]
pub(crate) struct ClusterNode {
    config: Config,
    store: Arc<dyn LockStore>,
    notices: Arc<Notices>,
    state: WatchedValue<MemberState>,
    /// The tasks run here, whatever thread a lock is asked for on.
    runtime: Handle,
    holds: Arc<LockHolds>,
    /// One request for a lock at a time: a later one would be overtaken by one that is not wanted any more, whose lock
    /// is returned at once.
    takes: StateTable<Mutex<()>>,
}

/// Whether locks can be taken.
#[derive(Clone, Debug)]
enum MemberState {
    /// In this term.
    Member(Arc<LeaseTerm>),
    /// Not until there is a lease again.
    Between,
    /// The node has left.
    Closed,
}

impl MemberState {
    fn term(&self) -> Result<Option<Arc<LeaseTerm>>, Error> {
        match self {
            Self::Member(term) => Ok(Some(Arc::clone(term))),
            Self::Between => Ok(None),
            Self::Closed => Err(Error::Closed),
        }
    }
}

impl ClusterNode {
    /// A node with a lease.
    pub(crate) async fn register(
        store: Arc<dyn LockStore>,
        config: Config,
        holds: Arc<LockHolds>,
    ) -> Result<Self, Error> {
        let sent = clock::boottime();
        let term = LeaseTerm::new(store.register(config.lease).await?, sent, config.lease);
        Ok(Self {
            config,
            store,
            notices: Arc::default(),
            state: WatchedValue::new(MemberState::Member(Arc::new(term))),
            runtime: Handle::current(),
            holds,
            takes: StateTable::default(),
        })
    }

    pub(crate) fn holds(&self) -> &LockHolds {
        &self.holds
    }

    pub(crate) fn notices(&self) -> &Arc<Notices> {
        &self.notices
    }

    /// Serves one term after the other, until the task is aborted.
    pub(crate) async fn serve(self: Arc<Self>) {
        loop {
            let Ok(Some(term)) = self.current() else { return };
            self.keep(&term).await;
            let is_member = self.change(MemberState::Between);
            term.end();
            if !is_member {
                return;
            }
            tracing::warn!("this node has lost its lease: its sections are cancelled");
            let term = self.begin().await;
            if !self.change(MemberState::Member(Arc::new(term))) {
                return;
            }
        }
    }

    /// Changes the state unless the node has left; says whether it did.
    fn change(&self, to: MemberState) -> bool {
        self.state.change(|state| {
            let is_open = !matches!(state, MemberState::Closed);
            if is_open {
                *state = to;
            }
            is_open
        })
    }

    /// Renews the lease each third of it and when its session ends, until it is lost.
    async fn keep(&self, term: &LeaseTerm) {
        let Config { lease, .. } = self.config;
        for count in 1_u64.. {
            tokio::select! {
                biased;
                () = sleep(lease / 3) => {}
                () = self.store.session_ended() => term.session_ended(),
                () = term.expired() => return,
                () = term.refused.notified() => return,
            }
            loop {
                let sent = clock::boottime();
                let renewed = tokio::select! {
                    biased;
                    renewed = self.store.renew(term.node, lease) => renewed,
                    () = term.expired() => return,
                };
                match renewed {
                    Ok(true) => {
                        // a late answer does not revive an expired lease
                        if term.left().is_zero() {
                            return;
                        }
                        term.renewed(sent);
                        break;
                    }
                    Ok(false) => return,
                    Err(error) => {
                        tracing::warn!(%error, "the lease cannot be renewed: trying again");
                        if matches!(error, Error::Down(_)) {
                            term.server_is_down();
                        } else {
                            term.session_ended();
                        }
                        tokio::select! {
                            biased;
                            () = sleep(lease / SESSION_PART / 8) => {}
                            () = term.expired() => return,
                        }
                    }
                }
            }
            if count % TRIM == 0
                && let Err(error) = self.store.trim().await
            {
                tracing::warn!(%error, "old rows of the cluster stay");
            }
        }
    }

    /// Registers until that works.
    async fn begin(&self) -> LeaseTerm {
        loop {
            let sent = clock::boottime();
            match self.store.register(self.config.lease).await {
                Ok(node) => return LeaseTerm::new(node, sent, self.config.lease),
                Err(error) => {
                    tracing::warn!(%error, "the cluster gives no lease: trying again");
                    sleep(self.config.poll).await;
                }
            }
        }
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn store(&self) -> &dyn LockStore {
        &*self.store
    }

    /// Has something done on the runtime of the node.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(task);
    }

    /// The current term; `None` while there is none.
    pub(crate) fn current(&self) -> Result<Option<Arc<LeaseTerm>>, Error> {
        self.state.with(|state| state.term())
    }

    /// The current term, when there is one.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    async fn member(&self) -> Result<Arc<LeaseTerm>, Error> {
        self.state.wait_for(|state| state.term().transpose()).await
    }

    /// Leaves: waits until all locks are released, at most for a lease, then ends the lease, so that
    /// others need not wait for its end.
    pub(crate) async fn leave(&self) {
        let Some(term) = self.close() else { return };
        tokio::select! {
            biased;
            () = self.holds.none() => {
                if let Err(error) = self.store.leave(term.node).await {
                    tracing::warn!(%error, "the lease of this node stays until its end");
                }
            }
            () = sleep(self.config.lease) => {}
        }
        term.end();
    }

    /// Ends all sections: nothing renews the lease any more.
    pub(crate) fn abandon(&self) {
        if let Some(term) = self.close() {
            term.end();
        }
    }

    /// No lock can be taken any more; returns the term that was current.
    fn close(&self) -> Option<Arc<LeaseTerm>> {
        self.state.change(|state| mem::replace(state, MemberState::Closed).term().ok().flatten())
    }
}

/// Releases the locks that were dropped, until nothing can be dropped any more.
pub(crate) async fn give_back_all(
    store: Arc<dyn LockStore>,
    pause: Duration,
    mut returned: UnboundedReceiver<Return>,
) {
    while let Some(lock) = returned.recv().await {
        tokio::spawn(give_back(Arc::clone(&store), pause, lock));
    }
}

/// Releases a lock; tries again as long as nothing else frees it.
async fn give_back(store: Arc<dyn LockStore>, pause: Duration, lock: Return) {
    loop {
        match store.give_back(&lock.id, lock.epoch).await {
            Ok(()) => return,
            Err(error) if error.is_transient() && lock.term.is_valid() => {}
            Err(error) => {
                tracing::warn!(%error, "a lock is held until the end of this node's lease");
                return;
            }
        }
        tokio::select! {
            biased;
            () = sleep(pause) => {}
            () = lock.term.ended() => return,
        }
    }
}

/// Takes a lock for this node, as soon as it is free. At most one task of the node waits for it.
///
/// # Cancel safety
/// Dropping the future releases the lock if it was taken meanwhile.
pub(crate) async fn take(node: &Arc<ClusterNode>, id: &LockId) -> Result<Arc<Hold>, Error> {
    id.check()?;
    let (sender, taken) = oneshot::channel();
    node.runtime.spawn(take_for(Arc::clone(node), id.clone(), sender));
    let hold = taken.await.map_err(|_| Error::Closed)??;
    node.holds.list(&hold);
    Ok(hold)
}

async fn take_for(
    node: Arc<ClusterNode>,
    id: LockId,
    mut sender: oneshot::Sender<Result<Arc<Hold>, Error>>,
) {
    let turn = node.takes.get(&id, Mutex::default);
    let _turn = tokio::select! {
        biased;
        turn = turn.lock() => turn,
        () = sender.closed() => return,
    };
    let mut free = node.notices.subscribe(&id);
    // the answer to the last request is lost: the lock may be taken
    let mut is_unknown = false;
    loop {
        let term = tokio::select! {
            biased;
            term = node.member() => term,
            () = sender.closed(), if !is_unknown => return,
        };
        let term = match term {
            Ok(term) => term,
            Err(error) => return drop(sender.send(Err(error))),
        };
        free.begin();
        let asked = node.store.take(&id, term.node).await;
        is_unknown = asked.as_ref().is_err_and(Error::is_transient);
        let pause = match asked {
            Ok(Taken::Epoch(epoch)) => {
                // dropped, and given back by that, if it is not wanted any more or came too late
                let hold = Arc::new(node.holds.taken(&id, epoch, &term));
                if term.is_valid() {
                    return drop(sender.send(Ok(hold)));
                }
                node.config.poll
            }
            Ok(Taken::Held(left)) => left.clamp(Duration::from_millis(1), node.config.poll),
            Ok(Taken::NoLease) => {
                term.refused.notify_one();
                node.config.poll
            }
            Err(error) if error.is_transient() => node.config.poll,
            Err(error) => return drop(sender.send(Err(error))),
        };
        tokio::select! {
            biased;
            () = free.notified() => {}
            () = sleep(pause) => {}
            () = sender.closed(), if !is_unknown => return,
        }
    }
}
