//! Kill -9 of the server under load: nothing that was answered is missing, and nothing fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use asyncsteps_journal::postgres::{Options, Postgres};
use asyncsteps_journal::request::FirstOwner;
use asyncsteps_journal::{Journal, Uid};
use asyncsteps_postgres_server::Server;
use futures_util::future::{join, join_all};
use tokio::sync::watch;

use crate::flows::{entry, run, start, submit};

const FLOWS: usize = 32;

/// Appends of each flow.
const APPENDS: u64 = 60;

/// After how many answers in all the server is killed.
const KILLS: [usize; 4] = [200, 600, 1000, 1500];

#[test]
fn nothing_that_was_answered_is_lost_with_the_server() {
    let Some(mut server) = Server::start() else { return };
    run(async {
        let options = Options::new("test");
        let journal = Postgres::connect(server.config(), options.clone()).await.expect("a journal");
        // longer than the test, so that the flows stay where they are
        let node = journal.register(Duration::from_secs(3600)).await.expect("a node").node;
        let uids = join_all((0..FLOWS).map(|_| start(&journal, node))).await;
        let answered = Arc::new(watch::Sender::new(0_usize));
        let mut count = answered.subscribe();
        let tasks: Vec<_> = uids
            .iter()
            .map(|uid| tokio::spawn(append_all(journal.clone(), *uid, Arc::clone(&answered))))
            .collect();
        for kill in KILLS {
            count.wait_for(|count| *count >= kill).await.expect("they append");
            server = tokio::task::spawn_blocking(move || {
                server.end("KILL");
                server.run();
                server
            })
            .await
            .expect("it starts again");
        }
        for task in tasks {
            task.await.expect("each append was answered");
        }
        let journal = Postgres::connect(server.config(), options).await.expect("a journal");
        for uid in uids {
            let records = journal.load(uid).await.expect("the flow").records;
            let numbers = records.iter().map(|stored| stored.id.sequence);
            assert!(numbers.eq(0..=APPENDS), "{uid}: once each, and none is missing");
        }
        signals_and_submits_are_repeated_too(&journal, &mut server).await;
    });
}

async fn append_all(journal: Postgres, uid: Uid, answered: Arc<watch::Sender<usize>>) {
    for number in 1..=APPENDS {
        let answers = journal.append(vec![entry(uid, number, "value")]).await;
        answers.expect("it is repeated until it is answered")[0].clone().expect("it was written");
        answered.send_modify(|count| *count += 1);
    }
}

/// The server is away when they are asked for.
async fn signals_and_submits_are_repeated_too(journal: &Postgres, server: &mut Server) {
    let new = submit(FirstOwner::Any);
    let uid = new.uid;
    journal.submit(new).await.expect("a new flow");
    server.end("KILL");
    let asked = AtomicUsize::new(0);
    let later = submit(FirstOwner::Any);
    let later_uid = later.uid;
    let changes = async {
        asked.fetch_add(1, Ordering::Relaxed);
        let cancel = journal.cancel(uid, "me".into(), None);
        let (cancelled, submitted) = join(cancel, journal.submit(later)).await;
        cancelled.expect("it is repeated");
        submitted.expect("it is repeated");
    };
    let back = async {
        while asked.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
        server.run();
    };
    join(changes, back).await;
    assert!(journal.inbox(uid).await.expect("the flow").cancel.is_some());
    journal.load(later_uid).await.expect("it was submitted");
}
