//! The thread of a journal's connections and tasks. No body of the application runs there, so one that blocks its arbiter
//! holds up neither leases nor the requests of other arbiters.

use std::future::Future;
use std::{io, thread};

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::error::Error;

/// The thread, which ends with this.
#[derive(Debug)]
pub(super) struct TaskThread {
    handle: Handle,
    _lives: oneshot::Sender<()>,
}

impl TaskThread {
    pub(super) fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (lives, ended) = oneshot::channel::<()>();
        let handle = runtime.handle().clone();
        let run = move || _ = runtime.block_on(ended);
        thread::Builder::new().name("journal-tasks".to_owned()).spawn(run)?;
        Ok(Self { handle, _lives: lives })
    }

    /// Begins a task.
    pub(super) fn begin(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.handle.spawn(task));
    }

    /// Does something on the thread, such as to open a connection, which is read there.
    pub(super) async fn run<T, E>(
        &self,
        task: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        self.handle.spawn(task).await.unwrap_or_else(|_| Err(Error::Closed.into()))
    }
}
