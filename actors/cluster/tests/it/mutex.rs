//! Two nodes in one process share locks.

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::rc::Rc;
use std::time::Duration;

use asyncsteps_actors::flow::start_flow;
use asyncsteps_cluster::{Cluster, FencingToken, LOCK_LOST, Mutex, fences};
use asyncsteps_core::sync::ISync;
use asyncsteps_core::{Error, Flow, StepError, Template};
use futures_util::future::{join_all, poll_immediate};

use super::world::{config, flow, node, number, tables, until, url, with_server, within};
use asyncsteps_postgres_server::Server;

/// All in one test, because they share a server; behind a pooler that keeps sessions.
#[test]
fn two_nodes_share_locks() {
    with_server(async |server| {
        _ = server.pool("session", 60);
        sections_of_two_nodes_never_overlap(server).await;
        tokens_rise_also_if_the_row_is_gone(server).await;
        a_section_can_be_entered_again(server).await;
        templates_and_steps_hold_it_with_their_token(server).await;
        a_node_serves_its_own_flows_in_order(server).await;
        what_is_dropped_is_free(server).await;
        a_notice_wakes_a_waiter(server).await;
        a_lost_lease_ends_the_section_and_its_undo_has_the_lock(server).await;
        a_node_that_leaves_frees_its_locks(server).await;
        a_dropped_node_stops_renewing(server).await;
    });
}

async fn sections_of_two_nodes_never_overlap(server: &Server) {
    let nodes = [node(server).await, node(server).await];
    let (inside, entered) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let highest = Rc::new(Cell::new(0));
    let flows = (0..40).map(|number| {
        let mutex = nodes[number % 2].mutex("overlap").key("x");
        let (inside, entered) = (Rc::clone(&inside), Rc::clone(&entered));
        let (highest, token) = (Rc::clone(&highest), mutex.clone());
        let mut flow = Flow::new();
        flow.run(async move |()| {
            assert_eq!(inside.replace(1), 0, "one at a time");
            let epoch = token.fence().expect("it is held").epoch();
            assert!(highest.replace(epoch) < epoch, "each holder has a higher number");
            tokio::task::yield_now().await;
            inside.set(0);
            entered.set(entered.get() + 1);
            Ok(())
        })
        .locked(&mutex);
        within(start_flow::<()>(flow))
    });
    for result in join_all(flows).await {
        result.expect("it runs");
    }
    assert_eq!(entered.get(), 40);
}

async fn tokens_rise_also_if_the_row_is_gone(server: &Server) {
    let (node, tables) = (node(server).await, tables(server).await);
    let mutex = node.mutex("trimmed");
    let before = mutex.lock().await.expect("it is free").fence();
    until(&tables, "SELECT count(*) FROM mutex WHERE name = 'trimmed' AND holder IS NULL", 1).await;
    tables.execute("UPDATE mutex SET changed = 0 WHERE name = 'trimmed'", &[]).await.expect("it");
    tables.execute("SELECT trim_rows()", &[]).await.expect("the function");
    assert_eq!(number(&tables, "SELECT count(*) FROM mutex WHERE name = 'trimmed'").await, 0);
    let after = mutex.lock().await.expect("it is free").fence();
    assert!(before < after, "{before} {after}");
}

async fn a_section_can_be_entered_again(server: &Server) {
    let mutex = node(server).await.mutex("again");
    let mut steps = Flow::new();
    let (inner, token) = (mutex.clone(), mutex.clone());
    steps.sync(&mutex, move |asi, ()| {
        let outer = token.fence().expect("it is held");
        asi.sync(&inner, move |asi, ()| {
            assert_eq!(fences(asi), [outer.clone(), outer.clone()]);
            asi.success(outer.epoch())
        });
        let held = token.clone();
        asi.add(move |asi, inside: u64| {
            let still = held.fence().expect("the outer section still has it");
            asi.success((inside, still.epoch()))
        });
    });
    let (inside, still) = flow::<(u64, u64)>(steps).await.expect("it runs");
    assert_eq!(inside, still);
    assert_eq!(mutex.fence(), None);
}

async fn templates_and_steps_hold_it_with_their_token(server: &Server) {
    let mutex = node(server).await.mutex("forms").key("ä;b");
    let held = mutex.clone();
    let template = Template::build(move |asi| {
        let held = held.clone();
        asi.add(|asi, ()| asi.success(20));
        asi.sync(&mutex, move |asi, number: i32| {
            let fence = held.fence().expect("it is held");
            assert_eq!((fence.lock(), fence.key()), ("forms", "ä;b"));
            asi.success(number + 1)
        });
        asi.run(async |number: i32| Ok(number * 2)).locked(&mutex);
    });
    for _ in 0..2 {
        assert_eq!(flow::<i32>(template.flow()).await.expect("it runs"), 42);
    }
}

async fn a_node_serves_its_own_flows_in_order(server: &Server) {
    let node = node(server).await;
    let mutex = node.bounded_mutex("order", 5);
    let first = mutex.lock().await.expect("it is free");
    let log = Rc::new(RefCell::new(Vec::new()));
    let flows: Vec<_> = (0..5)
        .map(|number| {
            let log = Rc::clone(&log);
            let mut flow = Flow::new();
            flow.run(async move |()| {
                log.borrow_mut().push(number);
                Ok(())
            })
            .locked(&mutex);
            start_flow::<()>(flow)
        })
        .collect();
    assert_eq!(mutex.key_report().queued, 5);
    let mut rejected = Flow::new();
    rejected.run(async |()| Ok(())).locked(&mutex);
    let error = flow::<()>(rejected).await.expect_err("the queue is full");
    assert_eq!((error.code(), error.info()), ("DefenseRejected", Some("Mutex queue limit")));
    drop(first);
    for result in within(join_all(flows)).await {
        result.expect("it runs");
    }
    assert_eq!(*log.borrow(), [0, 1, 2, 3, 4]);
}

/// A wait or a request that is given up leaves nothing locked, at whatever point that is.
async fn what_is_dropped_is_free(server: &Server) {
    let (one, other) = (node(server).await, node(server).await);
    let (mutex, contender) = (one.mutex("dropped"), other.mutex("dropped"));
    for polls in 0..12 {
        let mut asked = Box::pin(mutex.lock());
        for _ in 0..polls {
            if poll_immediate(&mut asked).await.is_some() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(asked);
        let taken = within(contender.lock()).await.expect("it is given back");
        // and one that waits behind a holder
        let mut waits = Box::pin(mutex.lock());
        assert!(poll_immediate(&mut waits).await.is_none(), "it is held");
        drop((waits, taken));
    }
    within(mutex.lock()).await.map(drop).expect("it is free");
}

/// The waiter does not ask by itself in the time of the test.
async fn a_notice_wakes_a_waiter(server: &Server) {
    let slow = asyncsteps_cluster::Config { poll: Duration::from_secs(3600), ..config(60_000) };
    let waiter = Cluster::connect(&url(server), slow).await.expect("a node");
    let (holder, tables) = (node(server).await, tables(server).await);
    // the waiter listens as soon as this was told to it
    let (held, waits) = (holder.mutex("notice"), waiter.mutex("notice"));
    for _ in 0..3 {
        let guard = held.lock().await.expect("it is free");
        let mut taken = Box::pin(waits.lock());
        let is_wanted = "SELECT count(*) FROM mutex WHERE name = 'notice' AND wanted";
        tokio::select! {
            _ = &mut taken => panic!("it is held"),
            () = until(&tables, is_wanted, 1) => {}
        }
        drop(guard);
        within(taken).await.map(drop).expect("it was told");
        let free = "SELECT count(*) FROM mutex WHERE name = 'notice' AND holder IS NULL";
        until(&tables, free, 1).await;
    }
}

/// Has a node lose its lease: the server forgets it.
async fn forget(server: &Server, mutex: &Mutex) {
    let fence = mutex.fence().expect("it is held");
    let tables = tables(server).await;
    let forget = "DELETE FROM node WHERE id = (SELECT holder FROM mutex WHERE name = $1)";
    assert_eq!(tables.execute(forget, &[&fence.lock()]).await.expect("the table"), 1);
}

async fn a_lost_lease_ends_the_section_and_its_undo_has_the_lock(server: &Server) {
    let node = Cluster::connect(&url(server), config(4500)).await.expect("a node");
    let mutex = node.mutex("lost");
    let log = Rc::new(RefCell::new(Vec::<(&str, Option<FencingToken>)>::new()));
    let mut steps = Flow::new();
    let (held, seen) = (mutex.clone(), Rc::clone(&log));
    let after = Rc::clone(&log);
    steps
        .add(move |asi, ()| {
            let (undone, undo_log) = (held.clone(), Rc::clone(&seen));
            asi.run(async |()| Ok(())).undo(async move |_| {
                undo_log.borrow_mut().push(("undone", undone.fence()));
                Ok(())
            });
            asi.run(async move |()| {
                seen.borrow_mut().push(("inside", held.fence()));
                pending::<Result<(), StepError>>().await
            });
        })
        .locked(&mutex)
        .on_error(move |asi, error| {
            assert_eq!(error.code(), LOCK_LOST);
            after.borrow_mut().push(("handled", None));
            asi.success(())
        });
    let running = start_flow::<()>(steps);
    let is_inside = async {
        while log.borrow().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    within(is_inside).await;
    forget(server, &mutex).await;
    within(running).await.expect("it recovers");
    let log = log.take();
    let [("inside", Some(lost)), ("undone", Some(regained)), ("handled", None)] = &log[..] else {
        panic!("{log:?}")
    };
    assert!(lost < regained, "the undo has the lock, and a token of its own");
    assert_eq!(mutex.fence(), None);
    let guard = within(mutex.lock()).await.expect("the node has a lease again");
    assert!(guard.is_valid());
    forget(server, &mutex).await;
    within(guard.lost()).await;
    assert!(!guard.is_valid());
}

async fn a_node_that_leaves_frees_its_locks(server: &Server) {
    let (one, other) = (node(server).await, node(server).await);
    let (held, wanted) = (one.mutex("leave"), other.mutex("leave"));
    let guard = held.lock().await.expect("it is free");
    let mut left = Box::pin(one.leave());
    assert!(poll_immediate(&mut left).await.is_none(), "it waits for its lock");
    let error = held.key("other").lock().await.expect_err("it takes no more");
    assert_eq!(error.code(), "InternalError");
    drop(guard);
    within(left).await;
    within(wanted.lock()).await.map(drop).expect("it is free");
}

async fn a_dropped_node_stops_renewing(server: &Server) {
    /// In milliseconds: longer than any pause of a busy machine that is likely.
    const LEASE: u64 = 3000;
    let tables = tables(server).await;
    let short = Cluster::connect(&url(server), config(LEASE)).await.expect("a node");
    let mutex = short.mutex("gone");
    drop(short);
    let guard = mutex.lock().await.expect("the node lives with its locks");
    drop((mutex, guard));
    let waiter = node(server).await;
    let taken = within(waiter.mutex("gone").lock()).await.expect("it comes free");
    assert!(taken.is_valid());
    let renewed = format!("SELECT count(*) FROM node WHERE lease = {LEASE} AND ends > now_ms()");
    until(&tables, &renewed, 0).await;
}

const _: () = {
    const fn usable<T: ISync + Clone + Send + Sync + 'static>() {}
    usable::<Mutex>();
    const fn error_of<E: Into<Error>>() {}
    error_of::<asyncsteps_cluster::Error>();
};
