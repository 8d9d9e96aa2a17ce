//! A server that says nothing, takes no changes or has another password is dialled again.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use asyncsteps_journal::postgres::{LibpqOptions, Options, Postgres};
use asyncsteps_journal::request::FirstOwner;
use asyncsteps_journal::{Error, Journal, Uid};
use asyncsteps_postgres_server::Server;
use futures_util::future::join_all;
use tokio::time::timeout;
use tokio_postgres::{Client, Config};

use super::load::{end_sessions, raw};
use crate::flows::{run, submit};

/// Requests wait half a minute for a session that nothing else ends.
const BOUND: Duration = Duration::from_secs(25);

fn options() -> Options {
    Options { silent_after: Duration::from_secs(2), ..Options::new("test") }
}

async fn connect(config: Config) -> Postgres {
    Postgres::connect(config, options()).await.expect("a journal")
}

/// Lets the database take changes or none on sessions that begin from now on.
async fn set_read_only(client: &Client, is_read_only: bool) {
    let sql = format!("ALTER DATABASE postgres SET default_transaction_read_only = {is_read_only}");
    client
        .batch_execute(&format!("SET default_transaction_read_only = off; {sql}"))
        .await
        .expect("it is set");
}

/// Waits until the journal says so.
async fn lost(journal: &Postgres) {
    let mut sessions = journal.session();
    let is_lost = async {
        while journal.lost_since().is_none() {
            sessions.changed().await.expect("the journal is there");
        }
    };
    timeout(BOUND, is_lost).await.expect("it is noticed");
}

async fn stored(journal: &Postgres) -> Uid {
    let new = submit(FirstOwner::Any);
    let uid = new.uid;
    timeout(BOUND, journal.submit(new)).await.expect("it is asked anew").expect("a new flow");
    uid
}

#[test]
fn what_a_frozen_server_was_asked_is_asked_again_when_it_goes_on() {
    let Some(server) = Server::start() else { return };
    run(async {
        let journal = connect(server.config()).await;
        let uid = stored(&journal).await;
        server.freeze();
        let (asked, reads) = (stored(&journal), timeout(BOUND, journal.load(uid)));
        let thawed = async {
            lost(&journal).await;
            server.thaw();
        };
        let (later, read, ()) = tokio::join!(asked, reads, thawed);
        // a read is not repeated
        let read = read.expect("it ends with the session");
        assert!(matches!(read, Ok(_) | Err(Error::Unavailable(_))), "{read:?}");
        journal.load(later).await.expect("it was stored");
        while journal.lost_since().is_some() {
            journal.load(later).await.expect("the server answers");
        }
    });
}

#[test]
fn the_second_server_is_used_when_the_first_one_is_frozen() {
    let (Some(first), Some(second)) = (Server::start(), Server::start()) else { return };
    run(async {
        // as a server that follows the first one
        let alone = connect(second.config()).await;
        let client = raw(&second).await;
        set_read_only(&client, true).await;
        let mut both = second.config();
        both.host_path(
            first
                .config()
                .get_hosts()
                .iter()
                .find_map(|host| match host {
                    tokio_postgres::config::Host::Unix(folder) => Some(folder.clone()),
                    tokio_postgres::config::Host::Tcp(_) => None,
                })
                .expect("a socket"),
        );
        let journal = connect(both).await;
        let before = stored(&journal).await;
        assert!(alone.load(before).await.is_err(), "the first one has it");
        set_read_only(&client, false).await;
        first.freeze();
        lost(&journal).await;
        let after = stored(&journal).await;
        alone.load(after).await.expect("the second one has it");
    });
}

#[test]
fn a_session_that_takes_no_changes_is_not_kept() {
    let Some(server) = Server::start() else { return };
    run(async {
        let journal = connect(server.config()).await;
        let client = raw(&server).await;
        client.batch_execute("CREATE TABLE stock (count BIGINT)").await.unwrap();
        set_read_only(&client, true).await;
        end_sessions(&client).await;
        lost(&journal).await;
        let refused = loop {
            match journal.submit(submit(FirstOwner::Any)).await {
                // the first may find that its session has ended, before or behind its request
                Ok(_) | Err(Error::AnswerLost(_)) => {}
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, Error::ReadOnly(_)), "{refused:?}");
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&runs);
        let work = journal.transaction(async move |db| {
            let inserted = db.execute("INSERT INTO stock VALUES (1)", &[]).await;
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(inserted?)
        });
        let back = async {
            while runs.load(Ordering::Relaxed) == 0 {
                client.batch_execute("").await.unwrap();
            }
            set_read_only(&client, false).await;
            while journal.lost_since().is_some() {
                client.batch_execute("").await.unwrap();
            }
            stored(&journal).await;
        };
        let (done, ()) = tokio::join!(timeout(BOUND, work.into_future()), back);
        done.expect("it is repeated").map_err(|raised| raised.into_error()).expect("it is done");
    });
}

#[test]
fn a_password_that_is_rotated_in_its_file_is_read_again() {
    const AT_ONCE: usize = 4;
    let Some(server) = Server::start() else { return };
    run(async {
        let client = raw(&server).await;
        let file = client.query_one("SHOW hba_file", &[]).await.unwrap().get::<_, String>(0);
        let passfile = format!("{file}.passwords");
        let rotate = async |password: &str| {
            let role = format!("ALTER ROLE shop PASSWORD '{password}'");
            client.batch_execute(&role).await.unwrap();
            // sessions are made in between
            end_sessions(&client).await;
            fs::write(&passfile, format!("*:*:*:shop:{password}\n")).unwrap();
        };
        let role = "CREATE ROLE shop LOGIN; GRANT CREATE ON DATABASE postgres TO shop";
        client.batch_execute(role).await.unwrap();
        rotate("first").await;
        fs::write(&file, "local all shop scram-sha-256\nlocal all all trust\n").unwrap();
        client.execute("SELECT pg_reload_conf()", &[]).await.unwrap();

        let mut config = server.config();
        config.user("shop");
        let libpq = LibpqOptions { passfile: Some((&passfile).into()), ..Default::default() };
        let options = Options { libpq, ..options() };
        let journal = Postgres::connect(config, options).await.expect("a journal");
        let (ends, calls) = (AtomicBool::new(false), Arc::new(AtomicUsize::new(0)));
        let load = join_all((0..AT_ONCE).map(async |_| {
            while !ends.load(Ordering::Relaxed) {
                stored(&journal).await;
                calls.fetch_add(1, Ordering::Relaxed);
            }
        }));
        let rotations = async {
            for password in ["second", "third", "fourth"] {
                let before = calls.load(Ordering::Relaxed);
                rotate(password).await;
                while calls.load(Ordering::Relaxed) < before + 10 * AT_ONCE {
                    client.batch_execute("").await.unwrap();
                }
            }
            ends.store(true, Ordering::Relaxed);
        };
        tokio::join!(load, rotations);
    });
}
