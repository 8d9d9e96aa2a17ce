//! What befalls a server, while changes are asked for: all goes on by itself afterwards, nothing is lost or doubled.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use asyncsteps_journal::postgres::{Options, Postgres};
use asyncsteps_journal::request::FirstOwner;
use asyncsteps_journal::{Error, Journal};
use asyncsteps_postgres_server::Server;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

use super::load::{Load, end_sessions, raw};
use crate::flows::{run, submit};

#[test]
fn what_befalls_a_server_leaves_nothing_that_stands_still() {
    let Some(server) = Server::start() else { return };
    let times = if std::env::var_os("LONG_TESTS").is_some() { 10 } else { 2 };
    run(async {
        let journal = Postgres::connect(server.config(), Options::new("test")).await;
        let journal = journal.expect("a journal");
        let client = raw(&server).await;
        client.batch_execute("SET search_path = asyncsteps").await.unwrap();
        let load = Load::start(&journal).await;
        for _ in 0..times {
            load.during(end_sessions(&client)).await;
            // the columns that statements return have another type
            for kind in ["varchar", "text"] {
                let sql = format!("ALTER TABLE flow ALTER COLUMN reason TYPE {kind}");
                load.during(client.batch_execute(&sql)).await.unwrap();
            }
            an_idle_transaction_is_ended_and_repeated(&journal).await;
            load.during(all_connections(&server, &client, &load)).await;
            while journal.lost_since().is_some() {
                client.batch_execute("").await.unwrap();
            }
        }
        load.check(&journal).await;
        a_full_disk_refuses_until_there_is_room(&journal, &client).await;
    });
}

async fn an_idle_transaction_is_ended_and_repeated(journal: &Postgres) {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let work = journal.transaction(async move |db| {
        if counted.fetch_add(1, Ordering::Relaxed) == 0 {
            db.batch_execute("SET LOCAL idle_in_transaction_session_timeout = 1").await?;
            while !db.is_closed() {
                tokio::task::yield_now().await;
            }
        }
        db.batch_execute("SELECT 1").await?;
        Ok(())
    });
    work.await.map_err(|raised| raised.into_error()).expect("it is repeated");
    assert_eq!(runs.load(Ordering::Relaxed), 2);
}

/// Takes all connections that the server has, so that the journal has none; changes are asked for before they end.
async fn all_connections(server: &Server, client: &Client, load: &Load) {
    let mut config = server.config();
    config.application_name("others");
    let mut others = Vec::new();
    loop {
        match config.connect(NoTls).await {
            Ok((client, connection)) => {
                tokio::spawn(connection);
                others.push(client);
            }
            Err(error) => {
                assert_eq!(error.code(), Some(&SqlState::TOO_MANY_CONNECTIONS), "{error:?}");
                let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                           WHERE pid <> pg_backend_pid() AND application_name <> 'others' \
                           AND backend_type = 'client backend'";
                if client.execute(sql, &[]).await.expect("they are ended") == 0 {
                    break;
                }
            }
        }
    }
    load.ask();
    // time for them to be refused
    for _ in 0..5000 {
        client.batch_execute("").await.expect("it is a session");
    }
}

/// As the server says it when it cannot write.
async fn a_full_disk_refuses_until_there_is_room(journal: &Postgres, client: &Client) {
    let full = "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                RAISE EXCEPTION USING ERRCODE = '53100'; END $$; \
                CREATE TRIGGER full_disk BEFORE INSERT ON flow EXECUTE FUNCTION full_disk()";
    client.batch_execute(full).await.expect("a trigger");
    let refused = journal.submit(submit(FirstOwner::Any)).await;
    assert!(matches!(refused, Err(Error::DiskFull(_))), "{refused:?}");
    client.batch_execute("DROP TRIGGER full_disk ON flow").await.expect("it is gone");
    journal.submit(submit(FirstOwner::Any)).await.expect("there is room");
}
