//! The session by which other nodes know that this process lives, and the notices that nodes exchange over it.
//!
//! A process holds an advisory lock under a random number, which the rows of its nodes have. The lock ends with the
//! connection, and so with the process, however that ends. Each process looks whether the numbers of the others are
//! still locked, and ends the leases of nodes whose number has been free for [`LOOKS`] looks: a process that lives has a
//! new session by then. A process that stands still keeps its connection, so its nodes keep their leases.
//!
//! The same looks notice that the server is silent, or takes no changes.
//!
//! All of it is on a thread of its own, which no body of the application blocks.

use std::cell::Cell;
use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use asyncsteps_postgres::mend_sequences;
use parking_lot::Mutex;
use tokio::runtime;
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::sleep;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client};

use super::session::{JournalSession, PostgresServer, SessionFailure, read_only};
use super::tables::foreign;
use crate::error::Error;
use crate::time::{Clock, SystemClock, Timestamp};

/// How long a notice waits for others: the server notifies all listeners of each one, and they look
/// once for all of them.
const TOGETHER: Duration = Duration::from_millis(10);

/// Pauses between attempts to connect, the first and the longest. Nodes look for work by themselves meanwhile.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// How often a process looks whether the others live. A look is one statement on a table with a row for each node.
const LOOK: Duration = Duration::from_millis(200);

/// How many looks in a row have to find a session gone: so a process that lives has twice [`LOOK`] for a new one.
const LOOKS: u32 = 3;

/// Nodes have the session of their process, and the start of its server in microseconds: after a restart, or on another
/// server that took its place, no session is known, and leases run as long as they are. Programs that know no sessions
/// ignore the columns, so it is no other format; their nodes are dead when their leases have ended.
const COLUMNS: &str = "ALTER TABLE node ADD COLUMN session BIGINT, ADD COLUMN server BIGINT";

/// Locks a number for as long as the connection is open.
const BEGIN: &str = "SELECT pg_advisory_lock($1), \
     (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint";

/// The session that a process held before has a successor.
const SUCCEED: &str =
    "UPDATE node SET session = $3, server = $4 WHERE session = $1 AND server = $2";

/// The sessions of other processes that are gone, and whether the server takes no changes. A lock that is free is taken for
/// the length of the statement, with others that look.
const GONE: &str = "SELECT array(SELECT session FROM (SELECT DISTINCT session FROM node \
     WHERE session <> $1 AND server = $2 AND lease > 0) AS s \
     WHERE pg_try_advisory_xact_lock_shared(session)), \
     current_setting('transaction_read_only')::bool";

/// Ends the leases of nodes whose sessions are gone, as if the server had been up for long.
const END: &str = "UPDATE node SET ends = 0, lease = 0 WHERE id IN (SELECT id FROM node \
     WHERE session = ANY($1) AND server = $2 AND lease > 0 ORDER BY id FOR UPDATE SKIP LOCKED)";

/// What numbers are drawn of, and the highest ones.
const SEQUENCES: [(&str, &str); 3] = [
    ("program_id_seq", "SELECT max(id) FROM program"),
    ("node_id_seq", "SELECT greatest(max(id), (SELECT max(owner) FROM flow)) FROM node"),
    ("flow_number_seq", "SELECT max(number) FROM flow"),
];

/// Adds what a node has for its session, unless it is there, and mends sequences.
pub(super) async fn set_up(session: &JournalSession, schema: &str) -> Result<(), SessionFailure> {
    let there = "SELECT 1 FROM information_schema.columns \
                 WHERE table_schema = $1 AND table_name = 'node' AND column_name = 'session'";
    if session.query(there, &[&schema]).await?.is_empty() {
        session.batch(COLUMNS).await?;
    }
    Ok(mend_sequences(session.client(), &SEQUENCES).await?)
}

/// A session of this process, until its connection ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerSession {
    /// The number that is locked.
    pub(super) number: i64,
    /// The start of the server.
    pub(super) server: i64,
}

/// The thread, which ends with this.
pub(super) struct Presence {
    session: Arc<Mutex<Option<ServerSession>>>,
    changes: watch::Sender<u64>,
    lost_since: Arc<Mutex<Option<Timestamp>>>,
    _lives: oneshot::Sender<()>,
}

impl Presence {
    /// Begins to hold a session; notices of others change `changes`, and each of the `wishes` sends one.
    pub(super) fn start(
        server: Arc<PostgresServer>,
        channel: String,
        changes: watch::Sender<u64>,
        wishes: Arc<Notify>,
    ) -> io::Result<Self> {
        let (session, sessions) = (Arc::default(), watch::Sender::new(0));
        let (lives, ended) = oneshot::channel();
        let lost_since = Arc::default();
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let exchange = Exchange {
            server,
            channel,
            changes,
            wishes,
            session: Arc::clone(&session),
            sessions: sessions.clone(),
            last: None,
            lost_since: Arc::clone(&lost_since),
            why: String::new(),
            heard: Cell::new(SystemClock.now()),
        };
        thread::Builder::new().name("journal-session".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    biased;
                    _ = ended => {}
                    () = exchange.run() => {}
                }
            });
        })?;
        Ok(Self { session, changes: sessions, lost_since, _lives: lives })
    }

    /// The session; `None` while there is none.
    pub(super) fn session(&self) -> Option<ServerSession> {
        *self.session.lock()
    }

    /// Since when the server has not answered, or takes no changes.
    pub(super) fn lost_since(&self) -> Option<Timestamp> {
        *self.lost_since.lock()
    }

    /// A number that has changed when the session has.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

struct Exchange {
    server: Arc<PostgresServer>,
    channel: String,
    changes: watch::Sender<u64>,
    wishes: Arc<Notify>,
    session: Arc<Mutex<Option<ServerSession>>>,
    sessions: watch::Sender<u64>,
    /// The session that its nodes had last.
    last: Option<ServerSession>,
    lost_since: Arc<Mutex<Option<Timestamp>>>,
    /// Why it was lost last, as it was logged.
    why: String,
    /// When the server answered last.
    heard: Cell<Timestamp>,
}

impl Exchange {
    /// Connects whenever there is no connection.
    async fn run(mut self) {
        let mut pause = PAUSES.0;
        loop {
            let ended = self.connected().await;
            self.lose(ended);
            if self.change(None).is_some() {
                pause = PAUSES.0;
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// The server is lost until a look is answered.
    fn lose(&mut self, ended: Result<(), SessionFailure>) {
        let why = match ended {
            Ok(()) => "the connection has ended".to_owned(),
            Err(failure) => {
                if failure.is_silence() {
                    self.server.drop_sessions();
                }
                format!("{:?}", failure.told())
            }
        };
        let heard = self.heard.get();
        let is_known = self.lost_since.lock().replace(heard).is_some();
        // what keeps it away may be another thing than what has ended the last session
        if !is_known || why != self.why {
            let silent = Duration::from_millis(SystemClock.now().since(heard));
            tracing::warn!(?silent, why, "the journal is lost");
            self.why = why;
        }
    }

    /// A look was answered.
    fn hear(&self) {
        let now = SystemClock.now();
        self.heard.set(now);
        if let Some(since) = self.lost_since.lock().take() {
            tracing::info!(after = ?Duration::from_millis(now.since(since)), "the journal is there again");
        }
    }

    /// Another session, or none; returns the one before.
    fn change(&self, session: Option<ServerSession>) -> Option<ServerSession> {
        let before = std::mem::replace(&mut *self.session.lock(), session);
        // who finds the number unchanged finds the session so, too
        self.sessions.send_modify(|number| *number += 1);
        before
    }

    async fn connected(&mut self) -> Result<(), SessionFailure> {
        let (client, mut connection) = self.server.connect().await?;
        let told = self.changes.clone();
        let listening = async move {
            while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
                if matches!(message, AsyncMessage::Notification(_)) {
                    told.send_modify(|number| *number += 1);
                }
            }
        };
        tokio::select! {
            biased;
            () = listening => Ok(()),
            ended = self.hold(&client) => ended,
        }
    }

    async fn hold(&mut self, client: &Client) -> Result<(), SessionFailure> {
        let server = Arc::clone(&self.server);
        let session = server.within(self.begin(client)).await?;
        let this = &*self;
        tokio::select! {
            ended = this.send_notices(client) => ended,
            ended = this.look_at_others(client, session) => ended,
        }
    }

    /// Locks a new number, and passes it to the nodes of this process.
    async fn begin(&mut self, client: &Client) -> Result<ServerSession, SessionFailure> {
        // this may be another server
        mend_sequences(client, &SEQUENCES).await?;
        let random = getrandom::u64().map_err(|error| Error::Storage(Arc::new(error)))?;
        let number = random.cast_signed();
        let rows = client.query(BEGIN, &[&number]).await?;
        let session =
            ServerSession { number, server: rows.first().ok_or_else(foreign)?.try_get(1)? };
        if let Some(last) = self.last.replace(session) {
            let sessions = [last.number, last.server, number, session.server];
            let values = sessions.each_ref().map(|value| value as &(dyn ToSql + Sync));
            client.execute(SUCCEED, &values).await?;
        }
        self.change(Some(session));
        Ok(session)
    }

    async fn send_notices(&self, client: &Client) -> Result<(), SessionFailure> {
        let channel = &self.channel;
        client.batch_execute(&format!("LISTEN {channel}")).await?;
        // something may have happened before
        self.changes.send_modify(|number| *number += 1);
        loop {
            self.wishes.notified().await;
            sleep(TOGETHER).await;
            client.batch_execute(&format!("NOTIFY {channel}")).await?;
        }
    }

    /// Ends the leases of nodes whose process has ended.
    async fn look_at_others(
        &self,
        client: &Client,
        ServerSession { number, server }: ServerSession,
    ) -> Result<(), SessionFailure> {
        let gone = self.server.within(async { Ok(client.prepare(GONE).await?) }).await?;
        let mut looks = Looks::default();
        loop {
            let look = async { Ok(client.query_one(&gone, &[&number, &server]).await?) };
            let found = self.server.within(look).await?;
            if found.try_get(1)? {
                return Err(read_only());
            }
            self.hear();
            let dead = looks.find(&found.try_get::<_, Vec<i64>>(0)?);
            let values: [&(dyn ToSql + Sync); 2] = [&dead, &server];
            let ended = async { Ok(client.execute(END, &values).await?) };
            if !dead.is_empty() && self.server.within(ended).await? > 0 {
                self.changes.send_modify(|number| *number += 1);
                self.wishes.notify_one();
            }
            sleep(LOOK).await;
        }
    }
}

/// How many looks in a row have found sessions gone.
#[derive(Debug, Default)]
struct Looks(HashMap<i64, u32>);

impl Looks {
    /// These sessions are gone at this look; returns those whose processes have ended.
    fn find(&mut self, gone: &[i64]) -> Vec<i64> {
        let before = std::mem::take(&mut self.0);
        let counts = gone.iter().map(|session| (*session, before.get(session).unwrap_or(&0) + 1));
        self.0 = counts.collect();
        gone.iter().copied().filter(|session| self.0[session] >= LOOKS).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_gone_for_several_looks_in_a_row_before_its_process_counts_as_ended() {
        let mut looks = Looks::default();
        assert!(looks.find(&[1, 2]).is_empty());
        assert!(looks.find(&[1]).is_empty());
        assert_eq!(looks.find(&[1, 2]), [1]);
        assert!(looks.find(&[2]).is_empty());
        assert_eq!(looks.find(&[1, 2]), [2]);
    }
}
