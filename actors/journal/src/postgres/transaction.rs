//! Transactions of the application in the database of the journal.

use std::marker::PhantomData;
use std::time::Duration;

use asyncsteps_core::BodyResult;
use asyncsteps_postgres::PLANS;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::sleep;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::Postgres;
use super::change::{AskedChange, Change, EncodedBatch};
use super::group::{Found, Group, GroupAttempt, GroupEnd};
use super::session::{self, JournalSession, SessionFailure};
use crate::error::Error;
use crate::ran::{Ran, refused};
use crate::time::{Clock, SystemClock};
use crate::transaction::{self, Committed, Database, Local, Prepared, StepEntry};

/// How a transaction begins. The body can end it by mistake; then the savepoint is missing.
const BEGIN: &str = "BEGIN; SAVEPOINT asyncsteps_body";

/// How the part of the body ends: with an error if the body has ended its transaction, or has overlooked
/// that one of its statements failed, or if a constraint is violated that is checked in the end.
const END_OF_BODY: &str = "RELEASE SAVEPOINT asyncsteps_body; SET CONSTRAINTS ALL IMMEDIATE";

/// Pauses between attempts to reach the server: the first and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// The work of the application in a transaction of the journal's database, see
/// [`Postgres::transaction`]. Nothing is done before it is awaited, or passed to a step.
#[derive(derive_more::Debug)]
#[must_use = "nothing is done before it is awaited, or given to a step"]
pub struct Transaction<T, F> {
    journal: Postgres,
    #[debug(skip)]
    body: F,
    #[debug(skip)]
    gives: PhantomData<fn() -> T>,
}

impl Postgres {
    /// Does something with the application's own tables, which are in the journal's database. The search path is the
    /// user's or the one of the [`Config`](super::Config), so the tables of the journal are in no one's way.
    ///
    /// A step of a durable request [commits](crate::Transaction) it together with its record: exactly once.
    /// Awaited by itself it is a transaction without a record.
    ///
    /// The body gets a connection in a transaction (READ COMMITTED), and asks only the database: the server
    /// ends a transaction that does nothing for five seconds. It runs again from the beginning if the
    /// server is lost, or has to decide between it and another transaction; then the first time is rolled
    /// back. It can use savepoints, and must not end the transaction. An error or a panic rolls it back. What it sets for
    /// its session (`SET`, `SET ROLE`, locks, `LISTEN`, temporary tables, statements that it prepares by name) ends with it.
    ///
    /// ```no_run
    /// # use asyncsteps_journal::postgres::{Options, Postgres};
    /// # async fn count() -> Result<(), Box<dyn std::error::Error>> {
    /// let journal = Postgres::connect("postgres://shop@db/shop".parse()?, Options::new("shop 1.0")).await?;
    /// let stock = journal.transaction(async |db| {
    ///     db.execute("INSERT INTO stock VALUES ($1, $2)", &[&"apple", &3_i64]).await?;
    ///     let row = db.query_one("SELECT sum(count)::bigint FROM stock", &[]).await?;
    ///     Ok(row.try_get::<_, i64>(0)?)
    /// });
    /// assert_eq!(stock.await.map_err(|raised| raised.into_error())?, 3);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The errors of the body; InternalError if the transaction cannot be committed, or if it is not
    /// known whether it was.
    ///
    /// # Cancel safety
    /// If the future is dropped, it is rolled back, unless the commit was sent already.
    pub fn transaction<T, F>(&self, body: F) -> Transaction<T, F>
    where
        T: 'static,
        F: AsyncFn(&Client) -> BodyResult<T> + 'static,
    {
        Transaction { journal: self.clone(), body, gives: PhantomData }
    }
}

/// Why a body has no result.
enum BodyFailure {
    /// It failed, and is rolled back.
    Failed(asyncsteps_core::Error),
    /// Nothing was committed: it may run again.
    Again(SessionFailure),
}

impl<T, F> Transaction<T, F>
where
    T: 'static,
    F: AsyncFn(&Client) -> BodyResult<T> + 'static,
{
    /// Runs the body on a connection, and leaves the transaction open.
    async fn run<A>(
        &self,
        decide: impl Fn(T) -> Result<A, asyncsteps_core::Error>,
    ) -> Result<(JournalSession, A), BodyFailure> {
        let bodies = &self.journal.0.bodies;
        let session = bodies.take().await.map_err(BodyFailure::Again)?;
        session::within(session.batch(BEGIN)).await.map_err(BodyFailure::Again)?;
        let result = match (self.body)(session.client()).await {
            Ok(result) => decide(result),
            Err(raised) => Err(raised.into_error()),
        };
        let error = match result {
            Ok(result) => match session::within(session.batch(END_OF_BODY)).await {
                Ok(()) => return Ok((session, result)),
                Err(SessionFailure::Answered(error)) => refused(error),
                Err(failure) => return Err(BodyFailure::Again(failure)),
            },
            Err(error) => error,
        };
        let cause = error.find::<tokio_postgres::Error>();
        let is_refused =
            cause.is_some_and(|it| it.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION));
        let ended = async {
            session.batch("ROLLBACK").await?;
            Ok(is_refused && session.is_read_only().await?)
        };
        if session::within(ended).await.map_err(BodyFailure::Again)? {
            // the body did not ask for that: another session may take changes
            return Err(BodyFailure::Again(session::read_only()));
        }
        bodies.give_back(session);
        match cause.and_then(SessionFailure::conflict) {
            Some(conflict) => Err(BodyFailure::Again(conflict)),
            None => Err(BodyFailure::Failed(error)),
        }
    }

    /// The same until the server is there and takes it.
    async fn repeat<A>(
        &self,
        decide: impl Fn(T) -> Result<A, asyncsteps_core::Error>,
    ) -> BodyResult<(JournalSession, A)> {
        let mut pause = PAUSES.0;
        loop {
            match self.run(&decide).await {
                Ok(ran) => return Ok(ran),
                Err(BodyFailure::Failed(error)) => return Err(error.into()),
                Err(BodyFailure::Again(SessionFailure::Answered(error))) => {
                    return Err(refused(error).into());
                }
                Err(BodyFailure::Again(SessionFailure::Conflict(_))) => {}
                Err(BodyFailure::Again(SessionFailure::Lost(_))) => {
                    sleep(pause).await;
                    pause = (pause * 2).min(PAUSES.1);
                }
            }
        }
    }

    async fn commit(self) -> BodyResult<T> {
        let bodies = &self.journal.0.bodies;
        let _turn = bodies.turn().await;
        let (session, result) = self.repeat(Ok).await?;
        let committed = session::within(session.batch("COMMIT")).await;
        committed.map_err(|failure| refused(failure.told()))?;
        bodies.give_back(session);
        Ok(result)
    }
}

impl<T, F> IntoFuture for Transaction<T, F>
where
    T: 'static,
    F: AsyncFn(&Client) -> BodyResult<T> + 'static,
{
    type Output = BodyResult<T>;
    type IntoFuture = Local<'static, BodyResult<T>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.commit())
    }
}

impl<T, F> transaction::Transaction for Transaction<T, F>
where
    T: Serialize + DeserializeOwned + 'static,
    F: AsyncFn(&Client) -> BodyResult<T> + 'static,
{
    type Output = T;

    fn database(&self) -> Database {
        self.journal.0.database
    }

    fn commit(self) -> Local<'static, BodyResult<T>> {
        self.into_future()
    }

    fn prepare(self) -> Local<'static, BodyResult<Box<dyn Prepared>>> {
        Box::pin(async move {
            let turn = self.journal.0.bodies.turn().await;
            let (session, ran) = self.repeat_recorded().await?;
            let open = Some(session);
            Ok(Box::new(OpenTransaction { work: self, open, ran, is_sent: false, _turn: turn })
                as Box<dyn Prepared>)
        })
    }
}

impl<T, F> Transaction<T, F>
where
    T: Serialize + DeserializeOwned + 'static,
    F: AsyncFn(&Client) -> BodyResult<T> + 'static,
{
    /// Runs the body for its record.
    async fn repeat_recorded(&self) -> BodyResult<(JournalSession, Ran)> {
        let began = SystemClock.now();
        self.repeat(|result| Ran::new(&result, began)).await
    }
}

/// A transaction whose body has run.
struct OpenTransaction<T, F> {
    work: Transaction<T, F>,
    /// The connection with the open transaction; `None` if that was lost.
    open: Option<JournalSession>,
    ran: Ran,
    /// Its commit may have been sent.
    is_sent: bool,
    _turn: OwnedSemaphorePermit,
}

impl<T, F> Prepared for OpenTransaction<T, F>
where
    T: Serialize + DeserializeOwned + 'static,
    F: AsyncFn(&Client) -> BodyResult<T> + 'static,
{
    fn commit<'a>(&'a mut self, step: &'a StepEntry) -> Local<'a, Result<Committed, Error>> {
        Box::pin(async move {
            if self.is_sent {
                match self.find(step).await.map_err(SessionFailure::told)? {
                    Ok(None) => self.is_sent = false,
                    Ok(Some(written)) => return Ok(self.ran.committed(step, Ok(written))),
                    Err(not_written) => return Ok(Committed::NotWritten(not_written)),
                }
            }
            if self.open.is_none() {
                match self.work.repeat_recorded().await {
                    Ok((session, ran)) => (self.open, self.ran) = (Some(session), ran),
                    Err(raised) => return Ok(Committed::Failed(raised.into_error())),
                }
            }
            let Some(session) = self.open.take() else { unreachable!("it was opened above") };
            self.is_sent = true;
            let committed = session::within(self.finish(&session, step)).await;
            let committed = committed.map_err(SessionFailure::told)?;
            self.work.journal.0.bodies.give_back(session);
            Ok(committed)
        })
    }
}

impl<T, F> OpenTransaction<T, F> {
    fn group<'a>(&'a self, session: &'a JournalSession) -> Group<'a> {
        let super::PostgresState { program, limits, .. } = &*self.work.journal.0;
        Group { session, program: *program, limits: *limits, attempt: GroupAttempt::First }
    }

    /// The entry as a change of its flow.
    fn change(&self, step: &StepEntry) -> Change {
        let (append, records) = self.ran.entry(step, &self.work.journal.0.server.seal);
        let entries = EncodedBatch { batch: vec![append], records: vec![records] };
        // the answer is read from the change
        Change::Append(AskedChange::new(entries).0)
    }

    /// From here on the role is the journal's, names refer to its schema, and its statements are planned as in its own sessions.
    async fn enter_schema(&self, session: &JournalSession) -> Result<(), SessionFailure> {
        let plans = PLANS.map(|(name, value)| format!("SET LOCAL {name} = {value}; ")).concat();
        let schema = &self.work.journal.0.schema;
        session.batch(&format!("RESET ROLE; {plans}SET LOCAL search_path = {schema}")).await
    }

    /// Appends the record, and commits.
    async fn finish(
        &self,
        session: &JournalSession,
        step: &StepEntry,
    ) -> Result<Committed, SessionFailure> {
        self.enter_schema(session).await?;
        let mut changes = [self.change(step)];
        self.group(session).apply(&mut changes, GroupEnd::Open).await?;
        let [Change::Append(asked)] = changes else { return Err(Error::Closed.into()) };
        let answer = match asked.answer {
            Some(Ok(mut answers)) => answers.pop(),
            Some(Err(error)) => return Err(error.into()),
            None => None,
        };
        let committed = self.ran.committed(step, answer.ok_or(Error::Closed)?);
        let is_written = matches!(committed, Committed::Written(..));
        session.batch(if is_written { "COMMIT" } else { "ROLLBACK" }).await?;
        Ok(committed)
    }

    /// Looks whether it was committed.
    async fn find(&self, step: &StepEntry) -> Result<Found, SessionFailure> {
        let bodies = &self.work.journal.0.bodies;
        let session = bodies.take().await?;
        let found = session
            .transaction(async {
                self.enter_schema(&session).await?;
                self.group(&session).find(self.change(step)).await
            })
            .await?;
        bodies.give_back(session);
        Ok(found)
    }
}
