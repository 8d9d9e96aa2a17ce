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
    waiting: Mutex<VecDeque<(Box<str>, Value)>>,
    came: Notify,
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
        if waiting.len() >= MOST_WAITING {
            return Err(NotSignalled::TooMany(id.to_owned()));
        }
        waiting.push_back((name.into(), value));
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
    fn take(&self, name: &str) -> Option<Value> {
        let mut waiting = self.waiting.lock();
        let at = waiting.iter().position(|(of, _)| **of == *name)?;
        waiting.remove(at).map(|(_, value)| value)
    }
}

impl InboxGuard {
    /// Takes the oldest signal of this name when there is one. Null after `within`.
    ///
    /// Cancel safe: a signal is taken in the poll that returns it.
    pub(crate) async fn take(&self, name: &str, within: Option<Duration>) -> Value {
        let mut late = pin!(async {
            match within {
                Some(within) => sleep(within).await,
                None => pending().await,
            }
        });
        loop {
            let came = self.inbox.came.notified();
            if let Some(value) = self.inbox.take(name) {
                return value;
            }
            tokio::select! {
                biased;
                () = came => {}
                () = &mut late => return Value::Null,
            }
        }
    }
}

impl Drop for InboxGuard {
    fn drop(&mut self) {
        self.signals.0.remove(&self.id);
    }
}
