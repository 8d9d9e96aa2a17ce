//! The thread of a process that keeps the leases of its nodes.

use std::io;
use std::thread;

use asyncsteps_actors::clock;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// Keeps leases, on a thread of its own unless time is virtual: that has one thread.
pub(crate) struct Keeper(Option<(Handle, oneshot::Sender<()>)>);

impl Keeper {
    pub(crate) fn start() -> io::Result<Self> {
        if clock::is_virtual() {
            return Ok(Self(None));
        }
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (lives, ended) = oneshot::channel::<()>();
        let handle = runtime.handle().clone();
        let run = move || _ = runtime.block_on(ended);
        thread::Builder::new().name("durable-leases".to_owned()).spawn(run)?;
        Ok(Self(Some((handle, lives))))
    }

    /// Does something until it completes, or this future is dropped.
    pub(crate) async fn run(&self, work: impl Future<Output = ()> + Send + 'static) {
        let Some((thread, _)) = &self.0 else { return work.await };
        let mut tasks = JoinSet::new();
        tasks.spawn_on(work, thread);
        tasks.join_next().await;
    }

    /// Whether it has a thread.
    pub(crate) fn has_thread(&self) -> bool {
        self.0.is_some()
    }
}
