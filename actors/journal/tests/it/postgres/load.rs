//! Changes that are asked for all the time.

use std::sync::Arc;
use std::time::Duration;

use asyncsteps_journal::limits::BATCH;
use asyncsteps_journal::postgres::Postgres;
use asyncsteps_journal::request::{FirstOwner, Query};
use asyncsteps_journal::{Journal, Uid};
use asyncsteps_postgres_server::Server;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls};

use crate::flows::{entry, start, submit};

/// How many flows get records at once, and as many new flows are submitted.
const AT_ONCE: usize = 4;

/// How many records a flow gets.
const RECORDS: u64 = 500;

/// How many changes are asked for before a fault, and how many during it and after.
const ANSWERS: usize = 50 * AT_ONCE;

/// A session beside the journal's.
pub(crate) async fn raw(server: &Server) -> Client {
    let (client, connection) = server.direct().connect(NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client
}

/// Ends all sessions of clients but this one.
pub(crate) async fn end_sessions(client: &Client) {
    let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'";
    client.execute(sql, &[]).await.expect("they are ended");
}

/// Tasks that append to flows and submit others, as many changes as they may ask for.
pub(crate) struct Load {
    permits: Arc<Semaphore>,
    answered: watch::Receiver<usize>,
    appends: Vec<JoinHandle<Vec<(Uid, u64)>>>,
    submits: Vec<JoinHandle<Vec<Uid>>>,
}

impl Load {
    pub(crate) async fn start(journal: &Postgres) -> Self {
        // longer than the test, so that the flows stay where they are
        let node = journal.register(Duration::from_secs(3600)).await.expect("a node").node;
        let (permits, count) = (Arc::new(Semaphore::new(0)), Arc::new(watch::Sender::new(0)));
        let answered = count.subscribe();
        let (mut appends, mut submits) = (Vec::new(), Vec::new());
        for _ in 0..AT_ONCE {
            let task = (journal.clone(), Arc::clone(&permits), Arc::clone(&count));
            let (journal, permits, count) = task.clone();
            appends.push(tokio::spawn(async move {
                let mut flows = vec![(start(&journal, node).await, 0)];
                while let Ok(permit) = permits.acquire().await {
                    permit.forget();
                    if flows[flows.len() - 1].1 == RECORDS {
                        flows.push((start(&journal, node).await, 0));
                    }
                    let at = flows.len() - 1;
                    flows[at].1 += 1;
                    let answers = journal.append(vec![entry(flows[at].0, flows[at].1, "value")]);
                    let answers = answers.await.expect("it is repeated");
                    answers[0].clone().expect("it is written");
                    count.send_modify(|count| *count += 1);
                }
                flows
            }));
            let (journal, permits, count) = task;
            submits.push(tokio::spawn(async move {
                let mut uids = Vec::new();
                while let Ok(permit) = permits.acquire().await {
                    permit.forget();
                    let new = submit(FirstOwner::Any);
                    uids.push(new.uid);
                    journal.submit(new).await.expect("it is repeated");
                    count.send_modify(|count| *count += 1);
                }
                uids
            }));
        }
        Self { permits, answered, appends, submits }
    }

    /// Lets something happen while changes are asked for. All of them are answered in the end.
    pub(crate) async fn during<T>(&self, fault: impl Future<Output = T>) -> T {
        let mut answered = self.answered.clone();
        let before = *answered.borrow();
        self.permits.add_permits(2 * ANSWERS);
        answered.wait_for(|count| *count > before + ANSWERS / 2).await.expect("they are asked for");
        let happened = fault.await;
        answered.wait_for(|count| *count >= before + 2 * ANSWERS).await.expect("they are answered");
        happened
    }

    /// Lets each task ask for a change more.
    pub(crate) fn ask(&self) {
        self.permits.add_permits(2 * AT_ONCE);
    }

    /// Waits for an answer.
    pub(crate) async fn next(&self) {
        let mut answered = self.answered.clone();
        answered.mark_unchanged();
        answered.changed().await.expect("they are answered");
    }

    /// Ends; each change that was answered is there once.
    pub(crate) async fn check(self, journal: &Postgres) {
        self.permits.close();
        let mut flows = Vec::new();
        for task in self.appends {
            for (uid, last) in task.await.expect("each was answered") {
                let records = journal.load(uid).await.expect("the flow").records;
                let numbers = records.iter().map(|stored| stored.id.sequence);
                assert!(numbers.eq(0..=last), "{uid}: once each, and none is missing");
                flows.push(uid);
            }
        }
        for task in self.submits {
            flows.extend(task.await.expect("each was answered"));
        }
        let (mut listed, mut after) = (Vec::new(), 0);
        loop {
            let query = Query { after, limit: BATCH, ..Query::default() };
            let page = journal.list(query).await.expect("a page");
            let Some(last) = page.last() else { break };
            after = last.number;
            listed.extend(page.iter().map(|flow| flow.uid));
        }
        flows.sort();
        listed.sort();
        assert!(flows == listed, "each is there once: {} of {}", listed.len(), flows.len());
    }
}
