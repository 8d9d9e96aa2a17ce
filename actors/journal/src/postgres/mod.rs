//! A journal in PostgreSQL, for the flows of several machines.
//!
//! # What is guaranteed
//!
//! An answered request is committed with `synchronous_commit=on`: it survives what the server's own
//! settings (`fsync`, `full_page_writes`) let it survive. Claims, leases and ends of waits go by the clock
//! of the server, so the clocks of nodes are never compared; and if the clock of the server jumps, leases and
//! lengths of time do not. After a start of the server no node loses its
//! flows for the length of its lease, because none could renew before.
//!
//! A process that dies is noticed by the end of its connection, as the server sees it: other processes look each 0.2 s,
//! and go on with its flows after 0.4 to 0.8 s. One that only stands still keeps them for its lease.
//!
//! Requests that change flows are written in groups, one commit for all that came meanwhile, and claims in groups of their
//! own. If the connection is lost, the group is repeated until the server has answered, and waits as long as that is
//! unreachable. If the answer then is an error, such as that of a full disk, such a request fails with a lost answer; so may
//! leases and trims. All of them are safe to repeat. Reads fail at once.
//!
//! Nodes notify each other of work by `NOTIFY`, outside of the transactions that append. A notice can be lost with a
//! connection, so nodes look by themselves each [`POLL`](crate::POLL).
//!
//! Each statement has one way to its rows, and the server takes it whatever it knows of the tables: a journal is as fast in a
//! database that was never analyzed. So flows are looked up by their `uid`, for which there is one index, and not by their
//! number, which is in several; a filter that an index could be taken for has `+ 0`; and what is joined is looked up in a
//! `LATERAL` of its own.
//!
//! What is removed is in the server's files until it vacuums the tables, and in its log as long as that is kept.
//!
//! A server that is silent, because its machine stands still or the network was cut, is noticed by the same process that
//! looks at others: after [3 s](Options::silent_after) without an answer all sessions of the process are dropped, what was
//! asked on them counts as a lost connection, and all hosts of the URL are dialled. The first one counts that answers and, of
//! several, takes changes. A session that was begun while the server took none is not used again. Until there is one that
//! does, [`Journal::lost_since`] says so.
//!
//! A node has up to six connections, and one for each [transaction](Postgres::transaction) of a step that runs, with TLS as
//! the URL says. A pooler in front of the server has to keep sessions; one that lends connections for a transaction is
//! refused at the start.

mod change;
mod claims;
mod emits;
mod group;
mod pool;
mod presence;
mod quotas;
mod reads;
mod schedules;
mod schema;
mod session;
mod submits;
mod tables;
mod tags;
mod tasks;
mod transaction;
mod writer;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_postgres::SILENT_AFTER;
use tokio::sync::{Mutex, Notify, watch};

use crate::check;
use crate::error::{Error, NotWritten, Refused};
use crate::id::{Incarnation, Uid};
use crate::journal::{Answer, Journal};
use crate::limits::Limits;
use crate::path::Path;
use crate::request::{
    Append, Appended, CallerKey, Cancelled, CancelledBy, Claim, Claimed, Counts, Emit, EmittedPage,
    FlowInfo, Inbox, Loaded, News, Query, ReadSchedule, Registered, Resume, Signal, Status,
    StoredSchedule, Submit, Submitted,
};
#[cfg(not(feature = "encryption"))]
use crate::seal::Seal;
use crate::stored;
use crate::time::{Reading, Timestamp};
use crate::transaction::Database;
use change::{Change, EncodedBatch};
use pool::Pool;
use presence::Presence;
use session::{JournalSession, PostgresServer, SessionFailure};
use tasks::TaskThread;
use writer::WriterHandle;

pub use asyncsteps_postgres::{LibpqOptions, Verify, split_url};
pub use tokio_postgres::{Client, Config};
pub use transaction::Transaction;

/// How a journal in PostgreSQL is used.
#[derive(Clone, Debug)]
pub struct Options {
    /// The schema with its tables, `asyncsteps` by default: lower-case letters, digits and `_`.
    pub schema: String,
    /// Its limits.
    pub limits: Limits,
    /// The name and version of the program, for errors about records that another one cannot read, and for its sessions
    /// (`application_name`) if the [`Config`] has no other name for them.
    pub program: String,
    /// How many [transactions](Postgres::transaction) run at the same time, each on a connection of its
    /// own; others wait. 8 by default: more on one machine mostly wait for each other. At least 1 and at most
    /// 1000, whatever is said.
    pub transactions: usize,
    /// What the [`Config`] does not have: files for TLS and with the password, which [`split_url`] takes out of a URL;
    /// nothing by default. They are read whenever a connection is made, so what is rotated in them needs no restart. A
    /// connection that is refused meanwhile is tried again.
    pub libpq: LibpqOptions,
    /// After this time without an answer the server is silent: 3 s by default. Shorter, and pauses of a busy server cost
    /// sessions.
    pub silent_after: Duration,
    /// The keys that seal what is recorded; by default it is stored as it is.
    #[cfg(feature = "encryption")]
    pub keys: Option<crate::Keys>,
}

impl Options {
    /// The defaults, for a program with this name and version.
    #[must_use]
    pub fn new(program: &str) -> Self {
        let schema = "asyncsteps".to_owned();
        Self {
            schema,
            limits: Limits::default(),
            program: program.to_owned(),
            transactions: 8,
            libpq: LibpqOptions::default(),
            silent_after: SILENT_AFTER,
            #[cfg(feature = "encryption")]
            keys: None,
        }
    }
}

/// A journal in PostgreSQL. Clones share its connections.
#[derive(Clone, derive_more::Debug)]
#[debug("Postgres {{ .. }}")]
pub struct Postgres(Arc<PostgresState>);

struct PostgresState {
    server: Arc<PostgresServer>,
    limits: Limits,
    schema: String,
    /// The number of this program in the table of programs.
    program: i64,
    database: Database,
    writer: WriterHandle,
    /// The same for claims: appends do not wait for them.
    claimer: WriterHandle,
    /// For transactions of the application.
    bodies: Pool,
    /// Shared by all who read.
    reader: Mutex<Option<Arc<JournalSession>>>,
    /// For what is removed, and for schedules, one after the other. Who uses it takes the session out and puts it back,
    /// so one that is dropped in the middle leaves no open transaction behind.
    cleaner: Mutex<Option<JournalSession>>,
    /// The same for leases.
    keeper: Mutex<Option<JournalSession>>,
    changes: watch::Sender<u64>,
    wishes: Arc<Notify>,
    presence: Presence,
}

impl Postgres {
    /// Connects to the journal in a database; its tables are made if they are not there. Its connections and tasks have
    /// threads of their own, which no body blocks.
    ///
    /// # Errors
    /// [`Error::OpenInFormat`] if an earlier program has left requests open;
    /// [`Error::Unavailable`] if the server is not reached, [`Error::NewerFormat`] if a later program made
    /// the tables, [`Refused::NotSchema`], or an error of the server.
    pub async fn connect(mut config: Config, options: Options) -> Result<Self, Error> {
        #[cfg(feature = "encryption")]
        let seal = options.keys.into();
        #[cfg(not(feature = "encryption"))]
        let seal = Seal::default();
        let Options { schema, limits, program, transactions, libpq, silent_after, .. } = options;
        let is_name =
            |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'_';
        let is_schema = (1..=40).contains(&schema.len())
            && schema.bytes().all(is_name)
            && !schema.as_bytes()[0].is_ascii_digit();
        if !is_schema {
            return Err(Refused::NotSchema(schema).into());
        }
        if config.get_application_name().is_none() {
            config.application_name(&program);
        }
        let tasks = TaskThread::start().map_err(|error| Error::Storage(Arc::new(error)))?;
        let dial = (config, libpq, silent_after);
        let server = Arc::new(PostgresServer::new(tasks, dial, &schema, seal));
        server.check_sessions().await.map_err(not_reached)?;
        let session = server.session().await.map_err(not_reached)?;
        let program = schema::set_up(&session, &schema, &program).await.map_err(not_reached)?;
        let writer = WriterHandle::start(Arc::clone(&server), Some(session), program, limits);
        let claimer = WriterHandle::start(Arc::clone(&server), None, program, limits);
        let bodies = Pool::new(Arc::clone(&server), transactions.clamp(1, 1000));
        let (changes, wishes) = (watch::Sender::new(0), Arc::default());
        let presence = Presence::start(
            Arc::clone(&server),
            format!("asyncsteps_{schema}"),
            changes.clone(),
            Arc::clone(&wishes),
        );
        let presence = presence.map_err(|error| Error::Storage(Arc::new(error)))?;
        let (reader, cleaner, keeper) = (Mutex::default(), Mutex::default(), Mutex::default());
        Ok(Self(Arc::new(PostgresState {
            server,
            limits,
            schema,
            program,
            database: Database::open(),
            writer,
            claimer,
            bodies,
            reader,
            cleaner,
            keeper,
            changes,
            wishes,
            presence,
        })))
    }

    /// There may be work, here and elsewhere.
    fn tell(&self) {
        self.0.changes.send_modify(|number| *number += 1);
        self.0.wishes.notify_one();
    }

    /// Changes something after which there may be work or news.
    fn change<'a, Q: Send + 'a, A: Send + 'a>(
        &'a self,
        wrap: impl FnOnce(change::AskedChange<Q, A>) -> Change + Send + 'a,
        request: Q,
    ) -> Answer<'a, A> {
        Box::pin(async move {
            let answer = self.0.writer.run(wrap, request).await;
            self.tell();
            answer
        })
    }

    async fn reader(&self) -> Result<Arc<JournalSession>, Error> {
        let mut reader = self.0.reader.lock().await;
        match &*reader {
            Some(session) if !session.is_closed() => Ok(Arc::clone(session)),
            _ => {
                let session = self.0.server.session().await.map_err(not_reached)?;
                Ok(Arc::clone(reader.insert(Arc::new(session))))
            }
        }
    }

    /// Has something done on a connection that one at a time uses.
    async fn alone<T, F>(
        &self,
        connection: &Mutex<Option<JournalSession>>,
        work: impl FnOnce(Arc<JournalSession>) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, SessionFailure>>,
    {
        let mut connection = connection.lock().await;
        let session = match connection.take() {
            Some(session) if !session.is_closed() => session,
            _ => self.0.server.session().await.map_err(not_reached)?,
        };
        let session = Arc::new(session);
        let result = session::within(work(Arc::clone(&session))).await;
        if !matches!(result, Err(SessionFailure::Lost(_))) {
            *connection = Arc::into_inner(session);
        }
        result.map_err(SessionFailure::told)
    }
}

/// Nothing was asked yet, or nothing that changes.
fn not_reached(failure: SessionFailure) -> Error {
    match failure {
        SessionFailure::Lost(cause) | SessionFailure::Conflict(cause) => Error::Unavailable(cause),
        SessionFailure::Answered(error) => error,
    }
}

fn refuse<'a, T: Send + 'a>(refused: Refused) -> Answer<'a, T> {
    Box::pin(async { Err(refused.into()) })
}

impl Journal for Postgres {
    fn submit(&self, submit: Submit) -> Answer<'_, Submitted> {
        match check::submit(&submit, &self.0.server.seal) {
            Ok(started) => self.change(Change::Submit, Box::new((submit, started))),
            Err(refused) => refuse(refused),
        }
    }

    fn append(&self, batch: Vec<Append>) -> Answer<'_, Vec<Result<Appended, NotWritten>>> {
        if let Err(refused) = check::batch(&batch) {
            return refuse(refused);
        }
        let sealed = |entry| check::append(entry, &self.0.server.seal);
        let records = batch.iter().map(sealed).collect();
        let gives_up = stored::gives_up(&batch);
        let entries = EncodedBatch { batch, records };
        if gives_up {
            self.change(Change::Append, entries)
        } else {
            Box::pin(self.0.writer.run(Change::Append, entries))
        }
    }

    fn claim(&self, claim: Claim) -> Answer<'_, Vec<Claimed>> {
        Box::pin(self.0.claimer.run(Change::Claim, claim))
    }

    fn load(&self, uid: Uid) -> Answer<'_, Loaded> {
        Box::pin(async move {
            let session = self.reader().await?;
            session::within(reads::load(&session, uid)).await.map_err(not_reached)
        })
    }

    fn inbox(&self, uid: Uid) -> Answer<'_, Inbox> {
        Box::pin(async move {
            let session = self.reader().await?;
            let inbox = async { reads::inbox(&session, &reads::flow(&session, uid).await?).await };
            session::within(inbox).await.map_err(not_reached)
        })
    }

    fn news(&self, node: Incarnation) -> Answer<'_, Vec<News>> {
        Box::pin(async move {
            let session = self.reader().await?;
            session::within(reads::news(&session, node)).await.map_err(not_reached)
        })
    }

    fn find(&self, key: CallerKey) -> Answer<'_, Option<Uid>> {
        Box::pin(async move {
            let session = self.reader().await?;
            session::within(reads::find(&session, &key)).await.map_err(not_reached)
        })
    }

    fn status(&self, uid: Uid) -> Answer<'_, Status> {
        Box::pin(async move {
            let session = self.reader().await?;
            session::within(reads::status(&session, uid)).await.map_err(not_reached)
        })
    }

    fn list(&self, query: Query) -> Answer<'_, Vec<FlowInfo>> {
        Box::pin(async move {
            let session = self.reader().await?;
            session::within(reads::list(&session, &query)).await.map_err(not_reached)
        })
    }

    fn count(&self, templates: Vec<String>) -> Answer<'_, Counts> {
        Box::pin(async move {
            let session = self.reader().await?;
            session::within(reads::count(&session, &templates)).await.map_err(not_reached)
        })
    }

    fn signal(&self, uid: Uid, signal: Signal) -> Answer<'_, ()> {
        match check::text("name", &signal.name) {
            Ok(()) => self.change(Change::Signal, (uid, signal)),
            Err(refused) => refuse(refused),
        }
    }

    fn emit(&self, emit: Emit) -> Answer<'_, Result<(), NotWritten>> {
        match check::emit(&emit, &self.0.server.seal) {
            Ok(value) => Box::pin(self.0.writer.run(Change::Emit, (emit, value))),
            Err(refused) => Box::pin(async { Ok(Err(refused.into())) }),
        }
    }

    fn emitted(&self, uid: Uid, after: u64, most: usize) -> Answer<'_, EmittedPage> {
        Box::pin(async move {
            let session = self.reader().await?;
            session::within(emits::emitted(&session, uid, (after, most))).await.map_err(not_reached)
        })
    }

    fn cancel(&self, uid: Uid, by: CancelledBy, unless: Option<Path>) -> Answer<'_, Cancelled> {
        match check::cancel(&by) {
            Ok(()) => self.change(Change::Cancel, (uid, by, unless)),
            Err(refused) => refuse(refused),
        }
    }

    fn resume(&self, uid: Uid, how: Resume) -> Answer<'_, ()> {
        match check::resume(&how) {
            Ok(()) => self.change(Change::Resume, (uid, how)),
            Err(refused) => refuse(refused),
        }
    }

    fn trim(&self, age: Duration) -> Answer<'_, usize> {
        Box::pin(self.alone(&self.0.cleaner, async move |session: Arc<JournalSession>| {
            claims::trim(&session, age).await
        }))
    }

    fn remove(&self, uids: Vec<Uid>) -> Answer<'_, ()> {
        if let Err(refused) = check::remove(&uids) {
            return refuse(refused);
        }
        Box::pin(self.alone(&self.0.cleaner, async move |session: Arc<JournalSession>| {
            claims::remove(&session, &uids).await
        }))
    }

    fn schedules(&self) -> Answer<'_, Vec<ReadSchedule>> {
        Box::pin(async move {
            let session = self.reader().await?;
            session::within(schedules::all(&session)).await.map_err(not_reached)
        })
    }

    fn put_schedule(&self, schedule: StoredSchedule) -> Answer<'_, ()> {
        if let Err(refused) = check::schedule(&schedule.name, 0) {
            return refuse(refused);
        }
        Box::pin(self.alone(&self.0.cleaner, async move |session: Arc<JournalSession>| {
            session.transaction(schedules::put(&session, &schedule)).await
        }))
    }

    fn remove_schedule(&self, name: String) -> Answer<'_, bool> {
        Box::pin(self.alone(&self.0.cleaner, async move |session: Arc<JournalSession>| {
            schedules::remove(&session, &name).await
        }))
    }

    fn register(&self, lease: Duration) -> Answer<'_, Registered> {
        Box::pin(self.alone(&self.0.keeper, async move |session: Arc<JournalSession>| {
            session.transaction(claims::register(&session, lease, self.0.presence.session())).await
        }))
    }

    fn renew(&self, node: Incarnation, lease: Duration) -> Answer<'_, Reading> {
        Box::pin(self.alone(&self.0.keeper, async move |session: Arc<JournalSession>| {
            session
                .transaction(claims::renew(&session, node, lease, self.0.presence.session()))
                .await
        }))
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    fn session(&self) -> watch::Receiver<u64> {
        self.0.presence.changes()
    }

    fn lost_since(&self) -> Option<Timestamp> {
        self.0.presence.lost_since()
    }

    fn database(&self) -> Option<Database> {
        Some(self.0.database)
    }
}
