//! Being told that a lock came free.

use std::collections::HashMap;
use std::future::{pending, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;
use tokio_postgres::AsyncMessage;

use super::Database;
use super::session::within;
use crate::error::Error;
use crate::lock_id::LockId;

/// How long to wait before connecting again; waiters ask by themselves meanwhile.
const PAUSE: Duration = Duration::from_millis(500);

/// The locks that are waited for on this node. A notice can be lost with the connection, so each waiter
/// also asks from time to time.
#[derive(Debug, Default)]
pub(crate) struct Notices(Mutex<HashMap<LockId, watch::Sender<()>>>);

/// A waiter for one lock.
#[derive(Debug)]
pub(crate) struct Subscription<'a> {
    notices: &'a Notices,
    id: &'a LockId,
    news: watch::Receiver<()>,
}

impl Notices {
    /// Takes part in the notices for a lock.
    pub(crate) fn subscribe<'a>(&'a self, id: &'a LockId) -> Subscription<'a> {
        let news = self.waiting().entry(id.clone()).or_default().subscribe();
        Subscription { notices: self, id, news }
    }

    /// Tells the waiters of a lock; for what cannot be read, all.
    fn tell(&self, payload: &str) {
        let freed: Option<(String, String)> = serde_json::from_str(payload).ok();
        for (id, waiters) in &*self.waiting() {
            if freed.as_ref().is_none_or(|(name, key)| id.name == name && *id.key == **key) {
                waiters.send_replace(());
            }
        }
    }

    /// Listens until the task is aborted.
    pub(crate) async fn listen(self: Arc<Self>, database: Arc<Database>) {
        loop {
            if let Err(error) = self.listen_once(&database).await {
                tracing::debug!(%error, "notices of the cluster are lost: listening again");
            }
            sleep(PAUSE).await;
        }
    }

    /// Listens until the connection is lost.
    async fn listen_once(&self, database: &Database) -> Result<(), Error> {
        let (client, mut connection) = database.connect().await?;
        let listening = async {
            while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
                if let AsyncMessage::Notification(notice) = message? {
                    self.tell(notice.payload());
                }
            }
            Ok(())
        };
        let asking = async {
            let listen = format!("LISTEN cluster_{}", database.schema());
            within(async { Ok(client.batch_execute(&listen).await?) }).await?;
            // something may have come free before
            self.tell("");
            pending().await
        };
        tokio::select! {
            ended = listening => ended,
            failed = asking => failed,
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<LockId, watch::Sender<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscription<'_> {
    /// What was told before counts no more.
    pub(crate) fn begin(&mut self) {
        self.news.mark_unchanged();
    }

    /// The lock may be free.
    ///
    /// # Cancel safety
    /// Dropping the future loses no notice.
    pub(crate) async fn told(&mut self) {
        if self.news.changed().await.is_err() {
            // the sender is in the table as long as there is a subscription
            pending::<()>().await;
        }
    }
}

impl Drop for Subscription<'_> {
    fn drop(&mut self) {
        let mut waiting = self.notices.waiting();
        // this one is counted
        if waiting.get(self.id).is_some_and(|waiters| waiters.receiver_count() <= 1) {
            waiting.remove(self.id);
        }
    }
}
