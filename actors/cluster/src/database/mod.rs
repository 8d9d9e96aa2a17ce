//! The cluster's database.

mod notices;
mod requests;
mod schema;
mod session;

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::tls::NoTlsStream;
use tokio_postgres::{Client, Connection, NoTls, Socket};

use crate::error::Error;

pub(crate) use notices::Notices;
pub(crate) use requests::{Requests, Taken};
pub(crate) use schema::set_up;

/// How long the server may take for one request before the connection counts as lost.
const PATIENCE: Duration = Duration::from_secs(10);

/// Settings of every connection. What the server answered survives a loss of power; no request waits for
/// longer than this node waits for its answer.
const SETTINGS: &str = "-c synchronous_commit=on -c statement_timeout=10000 \
                        -c default_transaction_isolation=read\\ committed";

/// Where the database is, and which tables are meant.
#[derive(Debug)]
pub(crate) struct Database {
    config: tokio_postgres::Config,
    schema: String,
}

impl Database {
    pub(crate) fn new(mut config: tokio_postgres::Config, schema: &str) -> Arc<Self> {
        let given = config.get_options().unwrap_or_default().to_owned();
        config.options(format!("{given} {SETTINGS} -c search_path={schema}"));
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Duration::from_secs(5));
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(Duration::from_secs(10));
        }
        Arc::new(Self { config, schema: schema.to_owned() })
    }

    pub(crate) fn schema(&self) -> &str {
        &self.schema
    }

    async fn connect(&self) -> Result<(Client, Connection<Socket, NoTlsStream>), Error> {
        session::within(async { Ok(self.config.connect(NoTls).await?) }).await
    }
}
