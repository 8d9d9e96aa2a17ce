//! Bodies that block their arbiter: what runs there is begun nowhere else, and what only waits there waits for nothing. These
//! tests have two threads, and so the time of the machine.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use asyncsteps_core::{Error, Retry, codes};
use asyncsteps_durable::{Durable, Options};
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Executor, Returns, Service, Steps};
use asyncsteps_journal::memory::Memory;
use asyncsteps_journal::postgres::{self, Postgres};
use asyncsteps_journal::request::FlowState;
use asyncsteps_journal::{Journal, LEASE, POLL, TokioClock, Uid};
use asyncsteps_postgres_server::Server;
use serde_json::json;
use tokio::sync::{Notify, oneshot};

use crate::lab::Nothing;
use crate::node::run;

/// What the bodies of all processes do.
#[derive(Clone)]
struct Site {
    blocked: Arc<AtomicUsize>,
    built: Arc<AtomicUsize>,
    entered: Arc<Notify>,
    /// A body is blocked until its other end is dropped.
    gate: Arc<Mutex<Receiver<()>>>,
}

impl Service for Site {
    type Errors = ();
}

fn blocks(steps: &Steps<Site, Nothing>) -> Returns<()> {
    steps
        .run("block", async |cx, ()| {
            if cx.blocked.fetch_add(1, Ordering::Relaxed) > 0 {
                // it is counted, and the gate is taken
                return Ok(());
            }
            cx.entered.notify_one();
            let gate = cx.gate.lock().expect("no body panics");
            // no task of the arbiter runs meanwhile
            gate.recv().expect_err("nothing is sent");
            Ok(())
        })
        .recorded()
        .returns()
}

fn builds(steps: &Steps<Site, Nothing>) -> Returns<()> {
    steps
        .run("begin", async |_, ()| Ok(()))
        .recorded()
        .then_pause("let it dry", LEASE * 9 / 10)
        .then("build", async |cx, ()| {
            cx.built.fetch_add(1, Ordering::Relaxed);
            Ok(())
        })
        .recorded()
        .returns()
}

/// Its body blocks the arbiter for a while, twice. The third time it only takes long.
fn hinders(steps: &Steps<Site, Nothing>) -> Returns<()> {
    steps
        .run("hinder", async |cx, ()| {
            if cx.attempt() < 3 {
                tokio::time::advance(POLL * 2).await;
                return Err(Error::new(codes::COMM_ERROR).into());
            }
            cx.entered.notify_one();
            tokio::time::sleep(POLL * 9).await;
            Ok(())
        })
        .recorded()
        .retry(Retry::attempts(3).on_code(codes::COMM_ERROR))
        .returns()
}

fn process(site: &Site, journal: impl Journal) -> (Durable, Executor) {
    let durable = Durable::new(journal);
    let interface = Interface::new("test.site:1.0".parse().expect("it is a name"));
    let executor = Executor::builder().service(interface, site.clone(), |functions| {
        durable.on(functions, "blocks", blocks);
        durable.on(functions, "builds", builds);
        durable.on(functions, "hinders", hinders);
    });
    let executor = executor.build().expect("the interface is complete");
    (durable, executor)
}

async fn submit(durable: &Durable, function: &str) -> Uid {
    let ann = User::new("ann", SecurityLevel::SafeOps);
    let (function, options) =
        (format!("test.site:1.0:{function}"), Options::default().caller(&ann));
    durable.submit(&function, json!({}), options).await.expect("it is accepted")
}

#[test]
fn what_waits_beside_a_body_that_blocks_goes_on_elsewhere_and_the_body_does_not() {
    let journal = Memory::default();
    a_body_blocks(async || journal.clone());
}

/// The journal of each process is opened where the body blocks, or where the others run.
#[test]
fn a_body_that_blocks_holds_up_no_journal_on_a_server() {
    let Some(server) = Server::start() else { return };
    a_body_blocks(async || {
        let journal = Postgres::connect(server.config(), postgres::Options::new("test"));
        journal.await.expect("a journal")
    });
}

/// A body of one process blocks until others have gone on in another process for longer than a lease.
fn a_body_blocks<J: Journal>(open: impl AsyncFn() -> J + Sync) {
    let (release, gate) = channel();
    let gate = Arc::new(Mutex::new(gate));
    let site =
        Site { blocked: Arc::default(), built: Arc::default(), entered: Arc::default(), gate };
    let (tell, told) = oneshot::channel();
    let (there, open) = (site.clone(), &open);
    let blocks = move || {
        actix::System::new().block_on(async {
            let (durable, executor) = process(&there, open().await);
            let node = durable.start(&executor).await.expect("the journal gives a lease");
            let builds = submit(&durable, "builds").await;
            while durable.status(builds).await.expect("it is known").flow.due.is_none() {
                tokio::task::yield_now().await;
            }
            assert!(tell.send((durable.clone(), builds)).is_ok(), "it is waited for");
            let blocks = submit(&durable, "blocks").await;
            durable.ended(blocks).await.expect("it ends");
            node.stop().await;
        });
    };
    let others = actix::System::new();
    let others_go_on = async {
        let (hindered, builds) = told.await.expect("the other process begins");
        site.entered.notified().await;
        let (durable, executor) = process(&site, open().await);
        let node = durable.start(&executor).await.expect("the journal gives a lease");
        // it was submitted where the body blocks, and what is submitted there now
        let late = submit(&hindered, "builds").await;
        durable.result::<()>(builds).await.expect("it is built here");
        hindered.result::<()>(late).await.expect("it is built here");
        let last = submit(&durable, "builds").await;
        durable.result::<()>(last).await.expect("it is built here");
        // by now its lease would have ended
        assert_eq!(site.blocked.load(Ordering::Relaxed), 1);
        drop(release);
        node.stop().await;
    };
    thread::scope(|threads| {
        threads.spawn(blocks);
        others.block_on(others_go_on);
    });
    assert_eq!(site.blocked.load(Ordering::Relaxed), 1);
    assert_eq!(site.built.load(Ordering::Relaxed), 3);
}

#[test]
fn a_body_that_has_blocked_twice_begins_without_any_other() {
    run(async {
        let gate = Arc::new(Mutex::new(channel().1));
        let site =
            Site { blocked: Arc::default(), built: Arc::default(), entered: Arc::default(), gate };
        let (durable, executor) = process(&site, Memory::new(TokioClock::start()));
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        let hinders = submit(&durable, "hinders").await;
        site.entered.notified().await;
        let builds = submit(&durable, "builds").await;
        let state = async |uid| durable.status(uid).await.expect("it is known").flow.state;
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(
            (state(hinders).await, state(builds).await),
            (FlowState::Running, FlowState::New)
        );
        // it has only taken long since then, which hinders no other
        tokio::time::sleep(POLL * 3).await;
        assert_eq!(
            (state(hinders).await, state(builds).await),
            (FlowState::Running, FlowState::Running)
        );
        durable.ended(builds).await.expect("it ends");
    });
}
