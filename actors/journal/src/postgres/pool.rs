//! Connections for transactions of the application.

use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::SimpleQueryMessage;

use super::session::{self, JournalSession, PostgresServer, SETTINGS, SessionFailure};
use crate::error::Error;

/// Undoes what a body may have set for the session, but for the statements that it has prepared by name, which are counted.
/// Those of the journal stay, as `DISCARD ALL` would not let them.
const RESET: &str = "CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ROLE; RESET ALL; UNLISTEN *; \
     DISCARD TEMP; DISCARD SEQUENCES; SELECT pg_advisory_unlock_all(), \
     (SELECT count(*) FROM pg_prepared_statements WHERE from_sql)";

/// A connection that is being reset; an error if it cannot be used again.
type ResetSession = Pin<Box<dyn Future<Output = Result<JournalSession, SessionFailure>> + Send>>;

/// Connections that are shared by the bodies of steps, one for each that runs.
pub(super) struct Pool {
    server: Arc<PostgresServer>,
    room: Arc<Semaphore>,
    free: Mutex<Vec<ResetSession>>,
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

    /// A connection in no transaction, on which nothing is set, for one whose turn it is.
    pub(super) async fn take(&self) -> Result<JournalSession, SessionFailure> {
        let free = || self.free.lock().pop();
        while let Some(reset) = free() {
            if let Ok(session) = session::within(reset).await
                && !session.is_closed()
            {
                return Ok(session);
            }
        }
        self.server.session_for_bodies().await
    }

    /// The connection is in no transaction any more. It is reset behind that, and the next one waits for the answer.
    pub(super) fn give_back(&self, session: JournalSession) {
        let mut reset: ResetSession = Box::pin(reset(session));
        // this sends it
        match reset.as_mut().now_or_never() {
            None => self.free.lock().push(reset),
            // the answer was there at once
            Some(Ok(session)) => self.free.lock().push(Box::pin(ready(Ok(session)))),
            Some(Err(_)) => {}
        }
    }
}

async fn reset(session: JournalSession) -> Result<JournalSession, SessionFailure> {
    let settings = SETTINGS.map(|(name, value)| format!("SET {name} = '{value}'; ")).concat();
    let answers = session.client().simple_query(&format!("{RESET}; {settings}")).await?;
    let prepared = answers.iter().find_map(|answer| {
        let SimpleQueryMessage::Row(row) = answer else { return None };
        row.get(1)
    });
    if prepared == Some("0") { Ok(session) } else { Err(Error::Closed.into()) }
}
