//! Signals for requests that run in this process: values that another request, such as a webhook, sends to one that
//! waits.

use std::collections::VecDeque;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_core::sleep;
use dashmap::DashMap;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;

/// How many signals of a request may wait for the steps that take them.
const MOST_WAITING: usize = 100;

/// Why a request does not get a signal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotSignalled {
    /// It is not in flight in this process, or its function has no step that waits for a signal.
    #[error("no request `{0}` waits for signals in this process")]
    NoRequest(String),
    /// Its function has failed or was cancelled, and what it did is being undone: no step takes a signal any more.
    #[error("the request `{0}` takes no signal any more: it is being undone")]
    Undone(String),
    /// As many signals as there may be wait for steps of it already.
    #[error("{MOST_WAITING} signals wait for the steps of the request `{0}` already")]
    TooMany(String),
    /// The value cannot be written as JSON.
    #[error("the value cannot be sent: {0}")]
    Value(#[from] serde_json::Error),
}

/// The requests of an executor that take signals, by their ids. Cloning shares.
#[derive(Clone, Debug, Default)]
pub(super) struct Signals(Arc<DashMap<Box<str>, Arc<Inbox>>>);

/// The signals that were sent to one request and that no step has taken.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    waiting: Mutex<Waiting>,
    came: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    signals: VecDeque<Sent>,
    /// How many were sent.
    sent: u64,
    /// The function has failed.
    is_over: bool,
}

/// A signal.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    number: u64,
    name: Box<str>,
    pub(crate) value: Value,
}

/// A request takes signals, until this is dropped.
pub(crate) struct InboxGuard {
    signals: Signals,
    id: Box<str>,
    inbox: Arc<Inbox>,
}

impl Signals {
    /// Sends a signal to the request with this id.
    pub(super) fn send(&self, id: &str, name: &str, value: Value) -> Result<(), NotSignalled> {
        // the lock of the map is free when the step is woken, because that runs foreign code
        let inbox = self.0.get(id).map(|inbox| Arc::clone(&inbox));
        let inbox = inbox.ok_or_else(|| NotSignalled::NoRequest(id.to_owned()))?;
        let mut waiting = inbox.waiting.lock();
        if waiting.is_over {
            return Err(NotSignalled::Undone(id.to_owned()));
        }
        if waiting.signals.len() >= MOST_WAITING {
            return Err(NotSignalled::TooMany(id.to_owned()));
        }
        let number = waiting.sent;
        waiting.sent += 1;
        waiting.signals.push_back(Sent { number, name: name.into(), value });
        drop(waiting);
        inbox.came.notify_waiters();
        Ok(())
    }

    /// The request with this id takes signals.
    pub(super) fn open(&self, id: &str) -> InboxGuard {
        let (id, inbox) = (Box::<str>::from(id), Arc::<Inbox>::default());
        self.0.insert(id.clone(), Arc::clone(&inbox));
        InboxGuard { signals: self.clone(), id, inbox }
    }
}

impl Inbox {
    /// The function has failed: no step takes a signal any more.
    pub(crate) fn close(&self) {
        self.waiting.lock().is_over = true;
    }

    fn take(&self, name: &str) -> Option<Sent> {
        let signals = &mut self.waiting.lock().signals;
        let at = signals.iter().position(|sent| *sent.name == *name)?;
        signals.remove(at)
    }

    fn put_back(&self, sent: Sent) {
        let signals = &mut self.waiting.lock().signals;
        let at = signals.partition_point(|later| later.number < sent.number);
        signals.insert(at, sent);
    }
}

impl InboxGuard {
    /// Where it is sent to.
    pub(crate) fn inbox(&self) -> &Arc<Inbox> {
        &self.inbox
    }

    /// These signals were taken in vain, and are there again, before those that came later.
    pub(crate) fn put_back(&self, signals: impl IntoIterator<Item = Sent>) {
        signals.into_iter().for_each(|sent| self.inbox.put_back(sent));
        self.inbox.came.notify_waiters();
    }

    /// Takes the oldest signal of this name when there is one; `None` after `within`.
    ///
    /// Cancel safe: a signal is taken in the poll that returns it.
    pub(crate) async fn take(&self, name: &str, within: Option<Duration>) -> Option<Sent> {
        let mut late = pin!(async {
            match within {
                Some(within) => sleep(within).await,
                None => pending().await,
            }
        });
        loop {
            let came = self.inbox.came.notified();
            if let Some(sent) = self.inbox.take(name) {
                return Some(sent);
            }
            tokio::select! {
                biased;
                () = came => {}
                () = &mut late => return None,
            }
        }
    }
}

impl Drop for InboxGuard {
    fn drop(&mut self) {
        self.signals.0.remove(&self.id);
    }
}
