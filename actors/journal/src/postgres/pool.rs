//! Connections for transactions of the application.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::session::{JournalSession, PostgresServer, SessionFailure};

/// Connections that are shared by the bodies of steps, one for each that runs.
pub(super) struct Pool {
    server: Arc<PostgresServer>,
    room: Arc<Semaphore>,
    free: Mutex<Vec<JournalSession>>,
}

impl Pool {
    /// Up to `most` connections, which are made when they are needed.
    pub(super) fn new(server: Arc<PostgresServer>, most: usize) -> Self {
        Self { server, room: Arc::new(Semaphore::new(most)), free: Mutex::default() }
    }

    /// Waits for its turn.
    pub(super) async fn turn(&self) -> OwnedSemaphorePermit {
        match Arc::clone(&self.room).acquire_owned().await {
            Ok(turn) => turn,
            Err(_) => unreachable!("it is never closed"),
        }
    }

    /// A connection in no transaction, for one whose turn it is.
    pub(super) async fn take(&self) -> Result<JournalSession, SessionFailure> {
        let free = || self.free.lock().pop();
        while let Some(session) = free() {
            if !session.is_closed() {
                return Ok(session);
            }
        }
        self.server.session_for_bodies().await
    }

    /// The connection is in no transaction any more.
    pub(super) fn give_back(&self, session: JournalSession) {
        self.free.lock().push(session);
    }
}
