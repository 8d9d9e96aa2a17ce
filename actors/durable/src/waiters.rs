//! Who waits in this process for a request to end, or to answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use asyncsteps_journal::Uid;
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// The waiters of all requests. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiters(Arc<Mutex<BTreeMap<Uid, Vec<oneshot::Sender<()>>>>>);

impl Waiters {
    /// Completes when the request [has come to that](Self::notify) in this process, or when that may be.
    pub(crate) fn wait(&self, uid: Uid) -> oneshot::Receiver<()> {
        let (waiter, notified) = oneshot::channel();
        let mut all = self.0.lock();
        let those = all.entry(uid).or_default();
        those.retain(|other| !other.is_closed());
        those.push(waiter);
        notified
    }

    /// Whether the request is waited for.
    pub(crate) fn has(&self, uid: Uid) -> bool {
        self.0.lock().contains_key(&uid)
    }

    /// Requests that are waited for, at most this many, without the ones left out.
    pub(crate) fn some(&self, most: usize, is_left_out: impl Fn(&Uid) -> bool) -> Vec<Uid> {
        self.0.lock().keys().filter(|uid| !is_left_out(uid)).take(most).copied().collect()
    }

    /// Forgets the waiters for a request that were dropped.
    pub(crate) fn forget(&self, uid: Uid) {
        let mut all = self.0.lock();
        if let Some(those) = all.get_mut(&uid) {
            those.retain(|other| !other.is_closed());
            if those.is_empty() {
                all.remove(&uid);
            }
        }
    }

    /// The request has ended, answers, waits for an operator, or goes back to the journal because the executor closes.
    pub(crate) fn notify(&self, uid: Uid) {
        for waiter in self.0.lock().remove(&uid).into_iter().flatten() {
            // a caller that no longer waits need not be notified
            let _ = waiter.send(());
        }
    }
}
