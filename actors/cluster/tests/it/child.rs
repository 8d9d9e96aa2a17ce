//! A process that holds a lock, and writes with its token when it is told to.

use std::env;
use std::future::pending;
use std::io::{BufRead, BufReader, Write, stdin};
use std::process::{Command, Stdio};
use std::thread;

use asyncsteps_actors::flow::start_flow;
use asyncsteps_cluster::{Cluster, FencingToken, sql};
use asyncsteps_core::{Flow, StepError};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_postgres::NoTls;

use super::world::{config, run, within};

/// The database for a process that is a holder, and its lease in milliseconds.
const DATABASE: &str = "CLUSTER_OF_HOLDER";
const LEASE: &str = "LEASE_OF_HOLDER";

/// The lock.
pub(crate) const LOCK: &str = "shared by processes";

/// What a process is told.
const WRITE: &str = "write";

pub(crate) struct Holder {
    process: std::process::Child,
    lines: UnboundedReceiver<String>,
}

/// Whether this process is a holder; then it has done its work.
pub(crate) fn was_holder() -> bool {
    let Ok(url) = env::var(DATABASE) else { return false };
    let lease = env::var(LEASE).ok().and_then(|lease| lease.parse().ok());
    run(hold(&url, lease.expect("a lease")));
    true
}

/// Holds the lock until this is killed, or nothing can be told any more.
async fn hold(url: &str, lease: u64) {
    let cluster = Cluster::connect(url, config(lease)).await.expect("a node");
    let mutex = cluster.mutex(LOCK);
    let (mut flow, held) = (Flow::new(), mutex.clone());
    let (fences, mut fence) = unbounded_channel();
    flow.run(async move |()| {
        let fence = held.fence().expect("it is held");
        say("holds", fence.epoch());
        fences.send(fence).expect("it is waited for");
        pending::<Result<(), StepError>>().await
    })
    .locked(&mutex);
    let (sender, mut told) = unbounded_channel();
    thread::spawn(move || forward(&mut stdin().lock(), &sender));
    let section = async {
        let error = start_flow::<()>(flow).await.expect_err("it does not end by itself");
        say("ended", error.code());
        pending::<()>().await;
    };
    let writing = async {
        let fence = fence.recv().await.expect("the lock is taken");
        while let Some(line) = told.recv().await {
            assert_eq!(line, WRITE);
            say("wrote", write(url, &fence).await);
        }
    };
    tokio::select! {
        () = section => {}
        () = writing => {}
    }
}

/// Writes the effect of a holder: how many rows it has changed.
pub(crate) async fn write(url: &str, fence: &FencingToken) -> u64 {
    let (mut client, connection) = tokio_postgres::connect(url, NoTls).await.expect("a server");
    tokio::spawn(connection);
    client.batch_execute(sql::TABLE).await.expect("a table");
    let effect = client.transaction().await.expect("a transaction");
    let fenced = sql::fenced(fence);
    let values: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
        [&fenced.lock, &fenced.key, &fenced.epoch];
    let stored = effect.execute(sql::POSTGRES, &values).await.expect("the table");
    effect.commit().await.expect("the server");
    stored
}

#[expect(clippy::print_stdout, reason = "the process that started this one reads it")]
fn say(what: &str, value: impl std::fmt::Display) {
    println!("{what} {value}");
}

fn forward(from: &mut dyn BufRead, to: &UnboundedSender<String>) {
    for line in from.lines().map_while(Result::ok) {
        if to.send(line).is_err() {
            return;
        }
    }
}

impl Holder {
    /// Starts a process, for the test with this name, that takes the lock.
    pub(crate) fn start(test: &str, url: &str, lease: u64) -> Self {
        let mut process = Command::new(env::current_exe().expect("this test"))
            .args(["--exact", test, "--nocapture"])
            .env(DATABASE, url)
            .env(LEASE, lease.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let (sender, lines) = unbounded_channel();
        let mut output = BufReader::new(process.stdout.take().expect("it is piped"));
        thread::spawn(move || forward(&mut output, &sender));
        Self { process, lines }
    }

    /// Waits until the process says this, and gives the value that it says.
    pub(crate) async fn said(&mut self, what: &str) -> String {
        within(async {
            loop {
                let line = self.lines.recv().await.expect("the process runs");
                if let Some((before, value)) = line.rsplit_once(' ')
                    && before.ends_with(what)
                {
                    return value.to_owned();
                }
            }
        })
        .await
    }

    /// What the process says next.
    pub(crate) async fn next(&mut self) -> String {
        within(self.lines.recv()).await.expect("the process runs")
    }

    /// Has the process write with its token, as soon as it runs.
    pub(crate) fn write(&mut self) {
        let input = self.process.stdin.as_mut().expect("it is piped");
        writeln!(input, "{WRITE}").expect("it is open");
    }

    /// Sends the process a signal.
    pub(crate) fn signal(&self, signal: &str) {
        let id = self.process.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &id]).status();
        assert!(sent.is_ok_and(|status| status.success()), "the process is there");
    }

    /// Kills the process, which cannot give anything back.
    pub(crate) fn kill(&mut self) {
        self.process.kill().expect("it is there");
        self.process.wait().expect("it ended");
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // it may be over already
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
