//! Waking what waits for a lock on this node.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::store::{LockId, LockStore};

/// The locks that are waited for on this node. A notice of the store can be lost, so each waiter also asks from time to
/// time.
#[derive(Debug, Default)]
pub(crate) struct Notices(Mutex<BTreeMap<LockId, watch::Sender<()>>>);

/// A waiter for one lock.
#[derive(Debug)]
pub(crate) struct NoticeSubscription<'a> {
    notices: &'a Notices,
    id: &'a LockId,
    news: watch::Receiver<()>,
}

impl Notices {
    /// Takes part in the notices for a lock.
    pub(crate) fn subscribe<'a>(&'a self, id: &'a LockId) -> NoticeSubscription<'a> {
        let news = self.0.lock().entry(id.clone()).or_default().subscribe();
        NoticeSubscription { notices: self, id, news }
    }

    /// Notifies the waiters of a lock, or all.
    fn notify(&self, freed: Option<(&str, &str)>) {
        for (id, waiters) in &*self.0.lock() {
            if freed.is_none_or(|(name, key)| id.name == name && *id.key == *key) {
                waiters.send_replace(());
            }
        }
    }

    /// Listens until the task is aborted.
    pub(crate) async fn listen(self: Arc<Self>, store: Arc<dyn LockStore>) {
        store.listen(&|freed| self.notify(freed)).await;
    }
}

impl NoticeSubscription<'_> {
    /// Notices that came before count no more.
    pub(crate) fn begin(&mut self) {
        self.news.mark_unchanged();
    }

    /// The lock may be free.
    ///
    /// # Cancel safety
    /// Dropping the future loses no notice.
    pub(crate) async fn notified(&mut self) {
        if self.news.changed().await.is_err() {
            // the sender is in the table as long as there is a subscription
            pending::<()>().await;
        }
    }
}

impl Drop for NoticeSubscription<'_> {
    fn drop(&mut self) {
        let mut waiting = self.notices.0.lock();
        // this one is counted
        if waiting.get(self.id).is_some_and(|waiters| waiters.receiver_count() <= 1) {
            waiting.remove(self.id);
        }
    }
}
