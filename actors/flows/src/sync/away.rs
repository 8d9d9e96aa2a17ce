//! Waits for what another process has (FTN12 §1.11.5): the deadlock detection goes on there.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use asyncsteps_core::{AsyncSteps, Error};
use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::deadlock::{
    self, Contended, ELSEWHERE, GraphWait, Holders, Resource, WaitGuard, WaitPath,
};
use super::mutex;

/// Sends a path to the process that has what is waited for.
type Onward = Arc<dyn Fn(WaitPath) + Send + Sync>;

/// A wait of a step for something that another process has, such as an entity: in the table of waits until this is dropped.
#[derive(derive_more::Debug)]
#[debug("AwayWait({:?})", self.away.key)]
pub struct AwayWait {
    away: Arc<Away>,
    wait: Arc<GraphWait>,
    _watch: WaitGuard,
}

struct Away {
    name: &'static str,
    key: Arc<str>,
    onward: Mutex<Option<Onward>>,
    fails: Mutex<Option<oneshot::Sender<Error>>>,
}

impl AwayWait {
    /// Enters a wait that the running step is about to begin, and the future that completes if it fails as a deadlock; `None`
    /// if no other flow may wait for its flow.
    pub fn of_step(
        asi: &mut AsyncSteps,
        name: &'static str,
        key: &Arc<str>,
    ) -> Option<(Self, impl Future<Output = Error> + use<>)> {
        if !deadlock::is_enabled() || !mutex::holds_up_others(asi) {
            return None;
        }
        let (fails, failed) = oneshot::channel();
        let (onward, fails, key) = (Mutex::default(), Mutex::new(Some(fails)), Arc::clone(key));
        let away = Arc::new(Away { name, key, onward, fails });
        let (identity, place) = (asi.identity(), asi.locations().next()?);
        let resource: Arc<Away> = Arc::clone(&away);
        let wait = Arc::new(GraphWait::new(asi, identity, place, resource, None));
        ELSEWHERE.fetch_add(1, Ordering::Relaxed);
        let failed = failed.then(|error| async {
            match error {
                Ok(error) => error,
                Err(_) => std::future::pending().await,
            }
        });
        Some((Self { away, _watch: wait.watch(), wait }, failed))
    }

    /// It is known where it is: `onward` sends paths there. Returns the first one, unless a time limit ends the wait.
    pub fn is_at(&self, onward: impl Fn(WaitPath) + Send + Sync + 'static) -> Option<WaitPath> {
        *self.away.onward.lock() = Some(Arc::new(onward));
        WaitPath::of(&self.wait)
    }
}

impl Drop for AwayWait {
    fn drop(&mut self) {
        ELSEWHERE.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Contended for Away {
    /// They are in another process.
    fn holders(&self) -> Option<Holders> {
        None
    }

    fn resource(&self) -> Resource {
        Resource::Mutex { name: self.name, key: Arc::clone(&self.key) }
    }

    fn pass_on(&self, path: &WaitPath) {
        let onward = self.onward.lock().clone();
        if let Some(onward) = onward {
            onward(path.clone());
        }
    }

    fn can_fail(&self) -> bool {
        true
    }

    fn fail(&self, error: &dyn Fn() -> Error) {
        let fails = self.fails.lock().take();
        if let Some(fails) = fails.filter(|fails| !fails.is_closed()) {
            // the wait may be over
            let _ = fails.send(error());
        }
    }
}
