//! A PostgreSQL server.

use asyncsteps_core::{BodyResult, Error};
use asyncsteps_journal::postgres::{Client, Options, Postgres};
use asyncsteps_journal::transaction::{Committed, Local, Prepared};
use asyncsteps_journal::{Journal, Transaction};
use asyncsteps_postgres_server::Server;

use super::rules;
use super::world::{Bank, Flow, Then};
use crate::flows::run;

const ACCOUNT: &str = "CREATE TABLE account (booked BIGINT);
    INSERT INTO account VALUES (0);
    CREATE TABLE owner (id BIGINT PRIMARY KEY);
    CREATE TABLE owned (owner BIGINT REFERENCES owner (id) DEFERRABLE INITIALLY DEFERRED);
    CREATE TABLE record (is_of_the_application BOOLEAN)";

struct Database(Postgres);

async fn book(db: &Client, then: Then) -> BodyResult<String> {
    let row = db.query_one("UPDATE account SET booked = booked + 1 RETURNING booked", &[]).await?;
    match then {
        Then::Ends => {}
        Then::Fails => return Err(Error::new("Declined").into()),
        Then::Panics => panic!("declined"),
        Then::GivesTooMuch => return Ok("x".repeat(1 << 20)),
        Then::EndsTheTransaction => db.batch_execute("COMMIT").await?,
        Then::OverlooksAnError => drop(db.execute("INSERT INTO nowhere VALUES (1)", &[]).await),
        Then::BreaksAConstraint => _ = db.execute("INSERT INTO owned VALUES (7)", &[]).await?,
    }
    Ok(format!("{} booked", row.try_get::<_, i64>(0)?))
}

impl Bank for Database {
    fn journal(&self) -> &dyn Journal {
        &self.0
    }

    fn book(&self, then: Then) -> Local<'_, BodyResult<Box<dyn Prepared>>> {
        self.0.transaction(async move |db| book(db, then).await).prepare()
    }

    fn booked(&self) -> Local<'_, i64> {
        let read = self.0.transaction(async |db| {
            Ok(db.query_one("SELECT booked FROM account", &[]).await?.try_get(0)?)
        });
        Box::pin(async { read.await.expect("the table is there") })
    }
}

/// All in one test, because they share a server.
#[test]
fn postgresql_keeps_every_rule() {
    let Some(server) = Server::start() else { return };
    run(async {
        let options = Options { transactions: 3, ..Options::new("test") };
        let journal = Postgres::connect(server.config(), options).await.expect("a journal");
        let tables = journal.transaction(async |db| Ok(db.batch_execute(ACCOUNT).await?));
        tables.await.expect("new tables");
        let bank = Database(journal);
        rules::all(&bank).await;
        one_of_two_that_wait_for_each_other_runs_again(&bank).await;
        what_a_body_sets_ends_with_it(&bank).await;
        a_body_may_act_as_another_role(&bank).await;
        a_server_that_is_lost_is_asked_again(&bank, server).await;
    });
}

async fn one_of_two_that_wait_for_each_other_runs_again(bank: &Database) {
    let setup = "CREATE TABLE pair (id BIGINT PRIMARY KEY, count BIGINT); \
                 INSERT INTO pair VALUES (1, 0), (2, 0)";
    bank.0.transaction(async move |db| Ok(db.batch_execute(setup).await?)).await.expect("a table");
    let raise = |ids: [i64; 2]| {
        let work = bank.0.transaction(async move |db| {
            for id in ids {
                db.execute("UPDATE pair SET count = count + 1 WHERE id = $1", &[&id]).await?;
                // the other one has its turn
                db.execute("SELECT pg_sleep(0.05)", &[]).await?;
            }
            Ok(())
        });
        work.prepare()
    };
    let (one, other) = (Flow::start(bank).await, Flow::start(bank).await);
    let commit = async |flow: &Flow<'_>, ids| {
        let mut prepared = raise(ids).await?;
        let committed = prepared.commit(&flow.step()).await?;
        assert!(matches!(committed, Committed::Written(..)), "{committed:?}");
        BodyResult::Ok(())
    };
    let both = futures_util::future::join(commit(&one, [1, 2]), commit(&other, [2, 1])).await;
    both.0.and(both.1).expect("both are committed");
    let sum = bank.0.transaction(async |db| {
        Ok(db.query_one("SELECT sum(count)::bigint FROM pair", &[]).await?.try_get::<_, i64>(0)?)
    });
    assert_eq!(sum.await.expect("the table is there"), 4);
}

/// What a body sets, and a question that says whether that is there.
const SET: [(&str, &str); 7] = [
    ("SET lock_timeout = 7000", "current_setting('lock_timeout') <> '0'"),
    ("SET synchronous_commit = off", "current_setting('synchronous_commit') <> 'on'"),
    ("CREATE ROLE clerk; SET ROLE clerk", "current_user = 'clerk'"),
    (
        "SELECT pg_advisory_lock(77)",
        "EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 77)",
    ),
    ("CREATE TEMPORARY TABLE draft (id BIGINT)", "to_regclass('draft') IS NOT NULL"),
    ("LISTEN news", "EXISTS (SELECT FROM pg_listening_channels())"),
    ("PREPARE one AS SELECT 1", "EXISTS (SELECT FROM pg_prepared_statements WHERE name = 'one')"),
];

async fn what_a_body_sets_ends_with_it(bank: &Database) {
    let ask = async |set: &'static str, question: String| {
        let body = bank.0.transaction(async move |db| {
            db.batch_execute(set).await?;
            let row = db.query_one(&format!("SELECT {question}, pg_backend_pid()"), &[]).await?;
            Ok((row.try_get::<_, bool>(0)?, row.try_get::<_, i32>(1)?))
        });
        body.await.map_err(|raised| raised.into_error()).expect("it is committed")
    };
    for (set, question) in SET {
        let (is_set, session) = ask(set, question.to_owned()).await;
        // a session listens when its transaction has ended
        assert!(is_set || set.starts_with("LISTEN"), "{set}: this test can fail");
        let (is_set, next) = ask("", question.to_owned()).await;
        assert!(!is_set, "{set}");
        assert_eq!(session == next, !set.starts_with("PREPARE"), "{set}: the session goes on");
    }
    let leaves = bank.0.transaction(async |db| {
        Ok(db.batch_execute("COMMIT; BEGIN; UPDATE account SET booked = -1").await?)
    });
    leaves.await.map_err(|raised| raised.into_error()).expect_err("it has ended the transaction");
    assert!(bank.booked().await >= 0);
}

async fn a_body_may_act_as_another_role(bank: &Database) {
    let flow = Flow::start(bank).await;
    let body = async |db: &Client| Ok(db.batch_execute("SET LOCAL ROLE clerk").await?);
    let mut prepared = bank.0.transaction(body).prepare().await.expect("it runs");
    let committed = prepared.commit(&flow.step()).await.expect("an answer");
    assert!(matches!(committed, Committed::Written(..)), "{committed:?}");
}

async fn a_server_that_is_lost_is_asked_again(bank: &Database, mut server: Server) {
    let flow = Flow::start(bank).await;
    let before = bank.booked().await;
    let mut prepared = bank.book(Then::Ends).await.expect("its body runs");
    server.end("KILL");
    let lost = prepared.commit(&flow.step()).await.expect_err("the server is away");
    assert_eq!(lost.repeat(), asyncsteps_journal::Repeat::UntilAnswered, "{lost}");
    let server = tokio::task::spawn_blocking(move || {
        server.run();
        server
    });
    let _server = server.await.expect("it starts again");
    let committed = loop {
        match prepared.commit(&flow.step()).await {
            Ok(committed) => break committed,
            Err(error) => assert_ne!(error.repeat(), asyncsteps_journal::Repeat::Never, "{error}"),
        }
    };
    assert!(matches!(committed, Committed::Written(..)), "{committed:?}");
    assert_eq!((bank.booked().await, flow.recorded().await.len()), (before + 1, 1));
}
