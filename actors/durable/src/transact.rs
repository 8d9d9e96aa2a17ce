//! Steps that commit in the database of the journal, together with their records.

use asyncsteps_core::BodyResult;
use asyncsteps_executor::recorder::{Codec, Later, Transactor, Work};
use asyncsteps_executor::{Cx, Service, Step, Steps};
use asyncsteps_journal::transaction::Prepared;
use asyncsteps_journal::{Database, Transaction};

/// Adds steps whose effect and record are one transaction of the journal's database: exactly once, whatever
/// crashes.
///
/// The body of such a step only makes the [`Transaction`], with the handle of the journal: on SQLite with a
/// closure that gets the connection, on PostgreSQL with an async closure that gets the client.
///
/// ```
/// use asyncsteps_durable::prelude::*;
/// use asyncsteps_executor::{Returns, Service, Steps};
/// use asyncsteps_journal::sqlite::Sqlite;
/// # use schemars::JsonSchema;
/// # use serde::Deserialize;
///
/// struct Shop {
///     journal: Sqlite, // the journal of its durable requests, and its own tables
/// }
/// # impl Service for Shop { type Errors = (); }
/// # #[derive(Deserialize, JsonSchema)]
/// # struct Order { sku: String, count: i64 }
///
/// fn order(steps: &Steps<Shop, Order>) -> Returns<i64> {
///     steps
///         .transact("place", |cx, ()| {
///             let (sku, count) = (cx.params.sku.clone(), cx.params.count);
///             cx.journal.transaction(move |db| {
///                 db.execute("UPDATE stock SET count = count - ?2 WHERE sku = ?1", (&sku, count))?;
///                 db.execute("INSERT INTO placed (sku, count) VALUES (?1, ?2)", (&sku, count))?;
///                 Ok(db.last_insert_rowid())
///             })
///         })
///         .returns()
/// }
/// ```
///
/// The result is what was recorded, read back. An error of the transaction rolls it back and becomes the error of the
/// step, which [`retry`](Step::retry) and handlers see as usual; a result that cannot be recorded is such an error.
/// [`Step::timeout`] ends the wait for it: if that comes while it is being committed, it is done or not, and an undo
/// gets [`Undo::Unknown`](asyncsteps_core::Undo::Unknown).
///
/// In requests without a journal the transaction is committed without a record. In a durable request whose journal is
/// in memory the step is an error, and one that commits in another database than that of the journal pauses the
/// request: see [the guide](crate::guide).
pub trait Transacts<S: Service, P: 'static, I: 'static> {
    /// A step that commits the transaction which `body` makes, see [above](Self).
    fn transact<X, F>(&self, name: &'static str, body: F) -> Step<S, P, I, I, X::Output>
    where
        X: Transaction,
        F: Fn(&Cx<S, P>, I) -> X + Send + Sync + 'static;
}

impl<S: Service, P: 'static, I: 'static> Transacts<S, P, I> for Steps<S, P, I> {
    #[track_caller]
    fn transact<X, F>(&self, name: &'static str, body: F) -> Step<S, P, I, I, X::Output>
    where
        X: Transaction,
        F: Fn(&Cx<S, P>, I) -> X + Send + Sync + 'static,
    {
        self.transacted(name, transactor::<X>(), body)
    }
}

/// [`Transacts`] behind a step whose result the transaction takes.
pub trait ThenTransacts<S: Service, P: 'static, I, T: 'static, E> {
    /// Adds the step that commits the transaction which `body` makes of the result of this one, see [`Transacts`].
    fn then_transact<X, F>(self, name: &'static str, body: F) -> Step<S, P, I, T, X::Output, E>
    where
        X: Transaction,
        F: Fn(&Cx<S, P>, T) -> X + Send + Sync + 'static;
}

impl<S, P, I, A, T, E> ThenTransacts<S, P, I, T, E> for Step<S, P, I, A, T, E>
where
    S: Service,
    P: 'static,
    I: 'static,
    A: 'static,
    T: 'static,
{
    #[track_caller]
    fn then_transact<X, F>(self, name: &'static str, body: F) -> Step<S, P, I, T, X::Output, E>
    where
        X: Transaction,
        F: Fn(&Cx<S, P>, T) -> X + Send + Sync + 'static,
    {
        self.then_transacted(name, transactor::<X>(), body)
    }
}

fn transactor<X: Transaction>() -> Transactor<X, X::Output> {
    Transactor {
        codec: Codec::of_results(),
        work: |transaction| Box::new(Box::new(transaction) as Box<dyn AnyTransaction>),
        alone: |transaction| transaction.commit(),
    }
}

/// A [`Transaction`] of any kind.
pub(crate) trait AnyTransaction {
    fn database(&self) -> Database;

    fn prepare(self: Box<Self>) -> Later<BodyResult<Box<dyn Prepared>>>;
}

impl<X: Transaction> AnyTransaction for X {
    fn database(&self) -> Database {
        Transaction::database(self)
    }

    fn prepare(self: Box<Self>) -> Later<BodyResult<Box<dyn Prepared>>> {
        Transaction::prepare(*self)
    }
}

/// The transaction that a body of [`transact`](Transacts::transact) returned.
pub(crate) fn transaction(work: Work) -> Box<dyn AnyTransaction> {
    match work.downcast::<Box<dyn AnyTransaction>>() {
        Ok(transaction) => *transaction,
        Err(_) => unreachable!("the steps of this crate give transactions"),
    }
}
