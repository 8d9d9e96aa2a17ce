//! A journal on another server, by the commands of the page "the database".

use std::time::Duration;

use asyncsteps_journal::postgres::{Options, Postgres};
use asyncsteps_journal::{Journal, Uid};
use asyncsteps_postgres_server::{Server, done};
use tokio_postgres::Client;

use super::load::raw;
use crate::flows::{entry, run, start};

async fn connect(server: &Server) -> Postgres {
    Postgres::connect(server.config(), Options::new("test")).await.expect("a journal")
}

/// A flow with records up to this number, of a node that has just registered.
async fn flow(journal: &Postgres, last: u64) -> Uid {
    let node = journal.register(Duration::from_secs(60)).await.expect("a node").node;
    let uid = start(journal, node).await;
    for number in 1..=last {
        let answers = journal.append(vec![entry(uid, number, "value")]).await;
        answers.expect("it is asked")[0].clone().expect("it is written");
    }
    uid
}

async fn records(journal: &Postgres, uid: Uid) -> usize {
    journal.load(uid).await.expect("it is there").records.len()
}

async fn all(client: &Client, sql: &str) {
    client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
}

#[test]
fn a_journal_is_restored_and_moved() {
    let (Some(mut from), Some(to)) = (Server::start(), Server::start()) else { return };
    run(async {
        let journal = connect(&from).await;
        let first = flow(&journal, 3).await;
        // a backup, and what is restored of it
        let dump = from.file("shop.dump");
        done(from.program("pg_dump").args(["-Fc", "--schema=asyncsteps", "-f"]).arg(&dump));
        flow(&journal, 1).await;
        done(to.program("pg_restore").args(["-d", "postgres", "--exit-on-error"]).arg(&dump));
        let restored = connect(&to).await;
        assert_eq!(records(&restored, first).await, 4);
        flow(&restored, 1).await;
        drop(restored);

        // all of it, while it is used, by logical replication
        all(&raw(&from).await, "ALTER SYSTEM SET wal_level = logical").await;
        from.end("INT");
        from.run();
        let (source, target) = (raw(&from).await, raw(&to).await);
        all(&target, "DROP SCHEMA asyncsteps CASCADE").await;
        let tables = from.file("tables.sql");
        let mut dump = from.program("pg_dump");
        done(dump.args(["--schema-only", "--schema=asyncsteps", "-f"]).arg(&tables));
        done(to.program("psql").args(["-v", "ON_ERROR_STOP=1", "-f"]).arg(&tables));
        all(&source, "CREATE PUBLICATION moves FOR TABLES IN SCHEMA asyncsteps").await;
        // a table without a key is known by all of its columns
        all(&source, "ALTER TABLE asyncsteps.format REPLICA IDENTITY FULL").await;
        all(&source, "ALTER TABLE asyncsteps.journal REPLICA IDENTITY FULL").await;
        let folder = from.file("").display().to_string();
        let subscription = format!(
            "CREATE SUBSCRIPTION moves CONNECTION 'host={folder} user=journal dbname=postgres' \
             PUBLICATION moves"
        );
        all(&target, &subscription).await;
        let last = flow(&journal, 2).await;
        drop(journal);
        let has_all = "SELECT bool_and(srsubstate = 'r') AND \
             (SELECT count(*) FROM asyncsteps.record) = $1::bigint FROM pg_subscription_rel";
        let count = source.query_one("SELECT count(*) FROM asyncsteps.record", &[]).await;
        let count: i64 = count.expect("a row").get(0);
        while !target.query_one(has_all, &[&count]).await.expect("a row").get::<_, bool>(0) {}
        all(&target, "DROP SUBSCRIPTION moves").await;
        let moved = connect(&to).await;
        assert_eq!([records(&moved, first).await, records(&moved, last).await], [4, 3]);
        flow(&moved, 1).await;
    });
}
