//! Sections at once, on all nodes together.

use std::cell::Cell;
use std::future::pending;
use std::rc::Rc;

use asyncsteps_actors::flow::start_flow;
use asyncsteps_cluster::{Cluster, Limiter, Limits, Rate};
use asyncsteps_core::{Flow, StepError};
use futures_util::future::join_all;

use super::throttle::LEASE;
use super::world::{config, flow, node, number, tables, url, with_server, within};
use asyncsteps_postgres_server::Server;

fn limits(concurrent: u32, max_queue: Option<u32>) -> Limits {
    let rate = Rate { max_queue: None, ..Rate::per_second(1000) };
    Limits { concurrent, max_queue, rate }
}

/// All in one test, because they share a server.
#[test]
fn nodes_share_places() {
    with_server(async |server| {
        a_place_is_free_when_its_section_is_over(server).await;
        a_section_that_is_entered_again_takes_one_place(server).await;
        sections_of_two_nodes_share_the_places(server).await;
        limits_of_zero_are_refused(server).await;
    });
}

/// A flow that takes a place and keeps it.
fn hang(limiter: &Limiter) -> Flow {
    let mut steps = Flow::new();
    steps.run(async |()| pending::<Result<(), StepError>>().await).limited(limiter);
    steps
}

async fn a_place_is_free_when_its_section_is_over(server: &Server) {
    let limiter = node(server).await.limiter("places", limits(2, Some(0))).expect("limits");
    let keyed = limiter.key("k");
    let held: Vec<_> = (0..2).map(|_| start_flow::<()>(hang(&keyed))).collect();
    within(async {
        while keyed.inside() < 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let error = flow::<()>(hang(&keyed)).await.expect_err("both places are taken");
    assert_eq!((error.code(), error.info()), ("DefenseRejected", Some("Mutex queue limit")));
    assert_eq!(limiter.inside(), 0, "another key");
    drop(held);
    let mut steps = Flow::new();
    steps.run(async |()| Ok(())).limited(&keyed);
    within(async {
        while keyed.inside() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    flow::<()>(steps).await.expect("the places are free");
}

async fn a_section_that_is_entered_again_takes_one_place(server: &Server) {
    let limiter = node(server).await.limiter("again", limits(1, Some(0))).expect("limits");
    let (inner, counted) = (limiter.clone(), limiter.clone());
    let mut steps = Flow::new();
    steps.sync(&limiter, move |asi, ()| {
        asi.sync(&inner, move |asi, ()| asi.success(counted.inside()));
    });
    assert_eq!(flow::<u32>(steps).await.expect("it runs"), 1);
    assert_eq!(limiter.inside(), 0);
}

async fn sections_of_two_nodes_share_the_places(server: &Server) {
    const PLACES: u32 = 3;
    let mut limiters = Vec::new();
    for _ in 0..2 {
        // the second one has its places when the first one renews its share: each third of a lease
        let node = Cluster::connect(&url(server), config(LEASE)).await.expect("a node");
        limiters.push(node.limiter("shared", limits(PLACES, None)).expect("limits"));
    }
    let (inside, most) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let tables = tables(server).await;
    let flows = (0..60).map(|number| {
        let (inside, most) = (Rc::clone(&inside), Rc::clone(&most));
        let mut steps = Flow::new();
        steps
            .run(async move |()| {
                inside.set(inside.get() + 1);
                most.set(most.get().max(inside.get()));
                asyncsteps_core::sleep(std::time::Duration::from_millis(5)).await;
                inside.set(inside.get() - 1);
                Ok(())
            })
            .limited(&limiters[number % 2]);
        within(start_flow::<()>(steps))
    });
    for result in join_all(flows).await {
        result.expect("it runs");
    }
    assert!((1..=PLACES).contains(&most.get()), "{}", most.get());
    let sum = "SELECT coalesce(sum(units), 0)::bigint FROM share WHERE name = 'places shared'";
    assert!(number(&tables, sum).await <= i64::from(PLACES));
}

async fn limits_of_zero_are_refused(server: &Server) {
    let node = node(server).await;
    for limits in [
        limits(0, None),
        Limits { rate: Rate::per_second(0), ..limits(1, None) },
        Limits {
            rate: Rate { period: std::time::Duration::ZERO, ..Rate::per_second(1) },
            ..limits(1, None)
        },
    ] {
        node.limiter("zero", limits).expect_err("it lets no flow in");
    }
}
