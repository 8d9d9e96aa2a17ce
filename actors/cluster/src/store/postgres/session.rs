//! A connection, made anew when it is lost.

use std::sync::Arc;

use tokio::sync::{Mutex, Notify};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use super::LockDatabase;
use crate::error::Error;

/// A value of a statement.
#[derive(Clone, Copy)]
pub(super) enum StatementValue<'a> {
    Text(&'a str),
    Int(i64),
}

impl StatementValue<'_> {
    fn typed(&self) -> (&(dyn ToSql + Sync), Type) {
        match self {
            Self::Text(text) => (text, Type::TEXT),
            Self::Int(number) => (number, Type::INT8),
        }
    }
}

/// Requests on one connection, which any number of tasks share. Each request is one statement, so a task
/// that is dropped or a process that stops leaves no transaction open.
pub(super) struct StoreSession {
    database: Arc<LockDatabase>,
    client: Mutex<Option<Arc<Client>>>,
    ended: Arc<Notify>,
}

impl StoreSession {
    /// A session that connects with its first request.
    pub(super) fn new(database: Arc<LockDatabase>) -> Self {
        Self { database, client: Mutex::default(), ended: Arc::default() }
    }

    async fn client(&self) -> Result<Arc<Client>, Error> {
        let mut client = self.client.lock().await;
        match &*client {
            Some(client) if !client.is_closed() => Ok(Arc::clone(client)),
            _ => {
                let (new, connection) = self.database.connect().await?;
                // it ends with the client, and the next request gets its error
                let ended = Arc::clone(&self.ended);
                tokio::spawn(async move {
                    connection.await.ok();
                    ended.notify_one();
                });
                Ok(Arc::clone(client.insert(Arc::new(new))))
            }
        }
    }

    /// Completes when a connection has ended since this completed last.
    pub(super) async fn ended(&self) {
        self.ended.notified().await;
    }

    /// The rows of a statement.
    pub(super) async fn query(
        &self,
        sql: &str,
        values: &[StatementValue<'_>],
    ) -> Result<Vec<Row>, Error> {
        let client = self.client().await?;
        let values: Vec<_> = values.iter().map(StatementValue::typed).collect();
        let asked = async { Ok(client.query_typed(sql, &values).await?) };
        let rows = self.database.dial.within(asked).await;
        if let Err(Error::Unavailable(_)) = rows {
            // one that is silent or takes no changes is not asked again
            self.client.lock().await.take_if(|current| Arc::ptr_eq(current, &client));
        }
        rows
    }
}
