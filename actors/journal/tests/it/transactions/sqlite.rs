//! A SQLite file.

use std::{env, fs, process};

use asyncsteps_core::{BodyResult, Error};
use asyncsteps_journal::sqlite::{Options, Sqlite};
use asyncsteps_journal::transaction::{Local, Prepared};
use asyncsteps_journal::{Journal, Transaction};
use rusqlite::Connection;

use super::rules;
use super::world::{Bank, Then};
use crate::flows::run;

const ACCOUNT: &str = "CREATE TABLE account (booked INTEGER);
    INSERT INTO account VALUES (0);
    CREATE TABLE owner (id INTEGER PRIMARY KEY);
    CREATE TABLE owned (owner INTEGER REFERENCES owner (id) DEFERRABLE INITIALLY DEFERRED);
    CREATE TABLE single (number INTEGER UNIQUE ON CONFLICT ROLLBACK)";

struct File(Sqlite);

fn book(db: &Connection, then: Then) -> BodyResult<String> {
    db.execute("UPDATE account SET booked = booked + 1", [])?;
    let booked: i64 = db.query_row("SELECT booked FROM account", [], |row| row.get(0))?;
    match then {
        Then::Ends => {}
        Then::Fails => return Err(Error::new("Declined").into()),
        Then::Panics => panic!("declined"),
        Then::GivesTooMuch => return Ok("x".repeat(1 << 20)),
        Then::EndsTheTransaction => db.execute_batch("COMMIT")?,
        // the constraint rolls all back
        Then::OverlooksAnError => drop(db.execute("INSERT INTO single VALUES (1), (1)", [])),
        Then::BreaksAConstraint => _ = db.execute("INSERT INTO owned VALUES (7)", [])?,
    }
    Ok(format!("{booked} booked"))
}

impl Bank for File {
    fn journal(&self) -> &dyn Journal {
        &self.0
    }

    fn book(&self, then: Then) -> Local<'_, BodyResult<Box<dyn Prepared>>> {
        self.0.transaction(move |db| book(db, then)).prepare()
    }

    fn booked(&self) -> Local<'_, i64> {
        let sum = |row: &rusqlite::Row<'_>| row.get(0);
        let read = self
            .0
            .transaction(move |db| Ok(db.query_row("SELECT booked FROM account", [], sum)?));
        Box::pin(async { read.await.expect("the table is there") })
    }
}

/// A journal with the tables of the rules.
async fn with_journal(name: &str, check: impl AsyncFnOnce(Sqlite)) {
    let folder = env::temp_dir().join(format!("journal-{}-{name}", process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let journal = Sqlite::open(folder.join("journal.db"), Options::new("test")).expect("a journal");
    let tables = journal.transaction(|db| Ok(db.execute_batch(ACCOUNT)?));
    tables.await.unwrap();
    check(journal).await;
    fs::remove_dir_all(&folder).expect("the folder is there");
}

#[test]
fn sqlite_keeps_every_rule() {
    run(with_journal("rules", async |journal| rules::all(&File(journal)).await));
}

#[test]
fn a_body_cannot_reach_what_is_not_its_own() {
    run(with_journal("fence", async |journal| {
        for sql in [
            "BEGIN",
            "COMMIT",
            "ROLLBACK",
            "RELEASE asyncsteps_body",
            "ROLLBACK TO asyncsteps_body",
            "ATTACH ':memory:' AS other",
            "UPDATE flow SET epoch = 9",
            "DELETE FROM record",
            "INSERT INTO NODE (ends) VALUES (1)",
            "DROP TABLE signal",
            "CREATE INDEX own ON flow (uid)",
            "ALTER TABLE program RENAME TO mine",
            "CREATE TRIGGER own AFTER INSERT ON record BEGIN SELECT 1; END",
        ] {
            let denied = journal.transaction(move |db| Ok(db.execute_batch(sql)?)).await;
            let error = denied.expect_err(sql).into_error();
            assert_eq!(error.code(), "InternalError", "{sql}: {error:?}");
            let cause = error.find::<rusqlite::Error>().expect(sql).sqlite_error_code();
            assert_eq!(cause, Some(rusqlite::ErrorCode::AuthorizationForStatementDenied), "{sql}");
        }
        let nested = "SAVEPOINT own; UPDATE account SET booked = 5; ROLLBACK TO own; RELEASE own";
        journal.transaction(move |db| Ok(db.execute_batch(nested)?)).await.expect("its own");
        // the statement that the journal has prepared for itself
        let commit = journal.transaction(|db| Ok(db.prepare_cached("COMMIT")?.execute([])?)).await;
        let error = commit.expect_err("it has ended the transaction").into_error();
        let cause = std::error::Error::source(&error).expect("it has one").to_string();
        assert_eq!(cause, "the body of a step has ended its transaction");
        assert_eq!(File(journal).booked().await, 0);
    }));
}
