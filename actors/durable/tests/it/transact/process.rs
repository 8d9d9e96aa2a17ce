//! Processes of the shop: this test, started again with a version of the program.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;
use std::{env, io, thread};

use actix_rt::signal::unix::{SignalKind, signal};
use asyncsteps_durable::{Durable, Options};
use asyncsteps_journal::Uid;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::transact::bank::ann;
use crate::transact::shop::{AGREED, ORDER, Order, Shop};

/// The URL of the journal of a process, and its version.
const JOURNAL: &str = "JOURNAL_OF_SHOP";
const VERSION: &str = "VERSION_OF_SHOP";

/// How long a process that was asked to end goes on with bodies that run.
const GRACE: Duration = Duration::from_secs(10);

/// What a process says of an order, whose uid is behind it on the line.
const ACCEPTED: &str = "accepted";
const ENDED: &str = "ended";

/// Whether this process is one of the shop; then it has done its work.
pub(crate) fn was_shop() -> bool {
    let Ok(url) = env::var(JOURNAL) else { return false };
    let version = env::var(VERSION).ok().and_then(|version| version.parse().ok());
    actix::System::new().block_on(serve(&url, version.expect("a version")));
    true
}

/// Runs a node, and has a customer order, until the process is asked to end or killed.
async fn serve(url: &str, version: i32) {
    let mut terminated = signal(SignalKind::terminate()).expect("a handler");
    let (durable, executor) = Shop::open(url, version).await.process();
    let node = durable.start(&executor).await.expect("the journal gives a lease");
    tokio::select! {
        () = orders(&durable) => {}
        _ = terminated.recv() => {}
    }
    executor.close(GRACE).await;
    node.stop().await;
}

/// A customer orders again and again. It agrees to every other order at once; the rest waits for somebody else.
async fn orders(durable: &Durable) {
    for number in 0_usize.. {
        let order = Order { is_refused: number / 2 % 2 == 1 };
        let uid = durable.submit(ORDER, order, Options::default().caller(ann())).await;
        let uid = uid.expect("the journal takes it");
        say(ACCEPTED, uid);
        if number % 2 == 0 {
            durable.signal(uid, AGREED, ()).await.expect("it waits for that");
            durable.ended(uid).await.expect("the journal is there");
            say(ENDED, uid);
        }
    }
}

fn say(what: &str, uid: Uid) {
    // one write for each line, so that a line is whole
    io::stdout().write_all(format!("{what} {uid}\n").as_bytes()).expect("it is read");
}

/// A process of the shop, which is killed when this is dropped.
pub(crate) struct Process {
    child: Child,
    lines: UnboundedReceiver<String>,
    /// The orders that it has accepted, as far as they were read.
    accepted: BTreeSet<Uid>,
}

impl Process {
    /// Starts one for the test with this name.
    pub(crate) fn start(test: &str, url: &str, version: i32) -> Self {
        let mut child = Command::new(env::current_exe().expect("this test"))
            .args(["--exact", test, "--nocapture"])
            .env(JOURNAL, url)
            .env(VERSION, version.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let (sender, lines) = unbounded_channel();
        let output = child.stdout.take().expect("it is piped");
        thread::spawn(move || forward(output, &sender));
        Self { child, lines, accepted: BTreeSet::new() }
    }

    /// Notes what a line says; returns whether it says that an order has ended.
    fn note(&mut self, line: &str) -> bool {
        // the test harness writes into the first line too
        let mut words = line.rsplit(' ');
        let Some(uid) = words.next().and_then(|uid| uid.parse().ok()) else { return false };
        match words.next() {
            Some(ACCEPTED) => {
                self.accepted.insert(uid);
                false
            }
            Some(ENDED) => self.accepted.contains(&uid),
            Some(_) | None => false,
        }
    }

    /// Waits until this number of its orders has ended from now on.
    pub(crate) async fn goes_on(&mut self, count: usize) {
        while let Ok(line) = self.lines.try_recv() {
            self.note(&line);
        }
        let mut ended = 0;
        while ended < count {
            let line = self.lines.recv().await.expect("the process runs");
            ended += usize::from(self.note(&line));
        }
    }

    /// Asks it to end, and waits until it has. Returns what it has accepted.
    pub(crate) async fn stop(mut self) -> BTreeSet<Uid> {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", "TERM", &id]).status();
        assert!(sent.is_ok_and(|status| status.success()), "the process is there");
        self.read_all().await;
        assert!(self.child.wait().expect("it has ended").success(), "it ends in order");
        std::mem::take(&mut self.accepted)
    }

    /// Kills it. Returns what it has accepted.
    pub(crate) async fn kill(mut self) -> BTreeSet<Uid> {
        self.child.kill().expect("it runs");
        self.read_all().await;
        assert!(!self.child.wait().expect("it has ended").success(), "it was killed");
        std::mem::take(&mut self.accepted)
    }

    async fn read_all(&mut self) {
        while let Some(line) = self.lines.recv().await {
            self.note(&line);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // it may have ended already
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn forward(from: ChildStdout, to: &UnboundedSender<String>) {
    for line in BufReader::new(from).lines().map_while(Result::ok) {
        if to.send(line).is_err() {
            return;
        }
    }
}
