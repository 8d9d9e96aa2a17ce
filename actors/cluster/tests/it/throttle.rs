//! Rates of all nodes together.

use std::time::Duration;

use asyncsteps_cluster::{Cluster, Counting, OnDisconnect, Rate, Throttle};
use asyncsteps_core::Flow;
use futures_util::future::poll_immediate;

use super::world::{config, flow, node, number, tables, until, url, with_server, within};
use asyncsteps_postgres_server::Server;

/// A period that does not end in a test.
const LONG: Duration = Duration::from_secs(3600);

/// A lease in milliseconds, and three times what passes between two renewals of a share: longer than any pause of a busy
/// machine that is likely.
pub(crate) const LEASE: u64 = 4500;

fn rate(max: u32, counting: Counting) -> Rate {
    Rate { max, period: LONG, max_queue: Some(0), counting }
}

const SHARES: Counting = Counting::Shares(OnDisconnect::Reject);

/// How many entries there are until one is refused, and why it is.
async fn enter_all(throttle: &Throttle) -> (u32, String) {
    for count in 0.. {
        let mut steps = Flow::new();
        steps.run(async |()| Ok(())).limited(throttle);
        if let Err(error) = flow::<()>(steps).await {
            assert_eq!(error.code(), "DefenseRejected");
            return (count, error.info().unwrap_or_default().to_owned());
        }
    }
    unreachable!("a rate has an end")
}

/// All in one test, because they share a server.
#[test]
fn nodes_share_rates() {
    with_server(async |server| {
        an_exact_rate_has_one_counter(server).await;
        a_period_of_an_exact_rate_ends(server).await;
        one_node_has_all_of_a_rate(server).await;
        shares_never_exceed_the_rate(server).await;
        what_one_node_gives_back_another_one_gets(server).await;
        a_share_is_used_by_one_node_per_period(server).await;
        a_lost_lease_ends_the_share_or_not(server).await;
    });
}

async fn an_exact_rate_has_one_counter(server: &Server) {
    let nodes = [node(server).await, node(server).await];
    let [one, other] =
        nodes.map(|node| node.throttle("exact", rate(5, Counting::Exact)).expect("limits"));
    one.enter().await.expect("there is room");
    other.enter().await.expect("there is room");
    assert_eq!(enter_all(&one).await, (3, "Throttle queue limit".to_owned()));
    assert_eq!(enter_all(&other).await.0, 0);
    assert_eq!(enter_all(&other.key("another")).await.0, 5);
}

async fn a_period_of_an_exact_rate_ends(server: &Server) {
    let node = node(server).await;
    let limits =
        Rate { period: Duration::from_millis(20), max_queue: Some(1), ..rate(1, Counting::Exact) };
    let throttle = node.throttle("periods", limits).expect("limits");
    for _ in 0..5 {
        within(throttle.enter()).await.expect("it waits for the next period");
    }
}

async fn one_node_has_all_of_a_rate(server: &Server) {
    let throttle = node(server).await.throttle("alone", rate(7, SHARES)).expect("limits");
    assert_eq!(enter_all(&throttle).await, (7, "Throttle queue limit".to_owned()));
}

/// What the nodes may use together, by the server.
const SUM: &str = "SELECT coalesce(sum(units), 0)::bigint FROM share WHERE name = 'rate sum'";

async fn shares_never_exceed_the_rate(server: &Server) {
    let tables = tables(server).await;
    let mut nodes = Vec::new();
    for _ in 0..3 {
        nodes.push(Cluster::connect(&url(server), config(LEASE)).await.expect("a node"));
    }
    let short = Rate { period: Duration::from_millis(10), ..rate(8, SHARES) };
    let throttles: Vec<_> =
        nodes.iter().map(|node| node.throttle("sum", short).expect("limits")).collect();
    let shares = "SELECT count(*) FROM share WHERE name = 'rate sum' AND units BETWEEN 2 AND 3";
    within(async {
        while number(&tables, shares).await < 3 {
            for throttle in &throttles {
                // refused or not: it is in use
                let _ = throttle.enter().await;
                assert!(number(&tables, SUM).await <= 8);
            }
        }
    })
    .await;
    assert_eq!(number(&tables, SUM).await, 8);
}

async fn what_one_node_gives_back_another_one_gets(server: &Server) {
    let tables = tables(server).await;
    let [idle, busy] = [
        Cluster::connect(&url(server), config(LEASE)).await.expect("a node"),
        Cluster::connect(&url(server), config(LEASE)).await.expect("a node"),
    ];
    let limits = Rate { period: Duration::from_millis(10), max_queue: Some(1), ..rate(4, SHARES) };
    let idle = idle.throttle("idle", limits).expect("limits");
    idle.enter().await.expect("it has all");
    let busy = busy.throttle("idle", limits).expect("limits");
    within(busy.enter()).await.expect("it gets a share");
    let all = "SELECT count(*) FROM share WHERE name = 'rate idle' AND units = 4";
    within(async {
        while number(&tables, all).await == 0 {
            // refused or not: it is in use
            let _ = busy.enter().await;
        }
    })
    .await;
    until(&tables, "SELECT count(*) FROM share WHERE name = 'rate idle'", 0).await;
}

/// What was used of a share does not come again with another node, in the same period.
async fn a_share_is_used_by_one_node_per_period(server: &Server) {
    let first = node(server).await;
    let throttle = first.throttle("period", rate(6, SHARES)).expect("limits");
    assert_eq!(enter_all(&throttle).await.0, 6);
    first.leave().await;
    let second = node(server).await.throttle("period", rate(6, SHARES)).expect("limits");
    assert_eq!(enter_all(&second).await.0, 0);
    let waits = Rate { max_queue: Some(1), ..rate(6, SHARES) };
    let third = node(server).await.throttle("period", waits).expect("limits");
    let mut entered = Box::pin(third.enter());
    assert!(poll_immediate(&mut entered).await.is_none(), "it waits for the next period");
}

/// The last one, because the server is gone after it.
async fn a_lost_lease_ends_the_share_or_not(server: &mut Server) {
    let node = Cluster::connect(&url(server), config(LEASE)).await.expect("a node");
    let throttle = |name, counting| {
        let limits = Rate { period: Duration::from_millis(10), ..rate(1000, counting) };
        node.throttle(name, limits).expect("limits")
    };
    let rejects = throttle("rejects", SHARES);
    let goes_on = throttle("goes on", Counting::Shares(OnDisconnect::GoOn));
    let exact = throttle("exact again", Counting::Exact);
    for throttle in [&rejects, &goes_on, &exact] {
        throttle.enter().await.expect("there is room");
    }
    server.end("KILL");
    let away = "Throttle without the database of its cluster";
    assert_eq!(enter_all(&exact).await, (0, away.to_owned()));
    within(async {
        // the lease lasts for a moment
        while enter_all(&rejects).await.1 != away {}
    })
    .await;
    goes_on.enter().await.expect("it goes on with its share");
}
