//! The promise: figures say whether anything stands still, and since when.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use asyncsteps_durable::{Durable, Options, Schedule};
use asyncsteps_executor::observe::{HostMetric, MetricKind};
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::{Executor, Returns, Steps};
use asyncsteps_journal::memory::{Fault, Memory, Operation};
use asyncsteps_journal::request::Query;
use serde_json::json;

use crate::lab::{Lab, Nothing};
use crate::node::run;

const SECOND: Duration = Duration::from_secs(1);

/// It hangs.
fn order(steps: &Steps<Lab, Nothing>) -> Returns<()> {
    steps.run("ship", async |_, ()| std::future::pending().await).recorded().returns()
}

fn wait(steps: &Steps<Lab, Nothing>) -> Returns<bool> {
    steps.wait_signal("approval").returns()
}

fn lab() -> Lab {
    Lab::new(|durable, functions| {
        durable.on(functions, "order", order);
        durable.on(functions, "wait", wait);
    })
}

/// The figures of an executor: the value of each name with its labels.
async fn figures(executor: &Executor) -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    for HostMetric { name, samples, .. } in executor.host_metrics().await {
        let name = name.strip_prefix("asyncsteps_durable_").expect("a figure of durable requests");
        for (labels, value) in samples {
            let labels: Vec<_> = labels.iter().map(|(_, value)| value.as_str()).collect();
            all.insert(format!("{name} {}", labels.join(" ")).trim_end().to_owned(), value);
        }
    }
    all
}

async fn after(seconds: u32) {
    tokio::time::sleep(SECOND * seconds).await;
}

#[test]
fn a_queue_that_stands_still_shows_since_when() {
    run(async {
        let lab = lab();
        let journal = lab.journal();
        let (durable, executor) = lab.process(journal.clone());
        let node = durable.start(&executor).await.expect("the journal gives a lease");
        after(1).await;
        let found = figures(&executor).await;
        assert_eq!((found["journal_up"], found.get("requests test.lab:1:order new")), (1.0, None));
        // a node without this function keeps the figures, and takes nothing
        node.stop().await;
        for _ in 0..3 {
            lab.submit(&journal, "order", Options::default()).await;
            after(10).await;
        }
        let found = figures(&executor).await;
        assert_eq!(found["requests test.lab:1:order new"], 3.0);
        assert!((30.0..31.0).contains(&found["oldest test.lab:1:order new"]), "{found:?}");
        assert_eq!(found["queue_head test.lab:1:order"], 0.0, "it was not looked at before");
        after(60).await;
        let found = figures(&executor).await;
        assert!((60.0..61.0).contains(&found["queue_head test.lab:1:order"]), "{found:?}");
        assert_eq!(found.get("lease_age 1"), None);
        let node = durable.start(&executor).await.expect("the journal gives a lease");
        after(10).await;
        let found = figures(&executor).await;
        assert_eq!(found.get("queue_head test.lab:1:order"), None);
        assert_eq!(found["requests test.lab:1:order running"], 3.0);
        assert!(found["oldest_body test.lab:1:order"] > 5.0, "{found:?}");
        assert!(found["lease_age 2"] < 4.0 && found["lease_renewals"] >= 2.0, "{found:?}");
        assert_eq!((found["leases_lost"], found["stored_requests"]), (0.0, 3.0));
        drop(node);
    });
}

#[test]
fn figures_say_what_waits_for_an_operator_and_for_a_time() {
    run(async {
        let lab = lab();
        let journal = lab.journal();
        let (durable, executor) = lab.process(journal.clone());
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        let uid = lab.submit(&journal, "order", Options::default()).await;
        lab.submit(&journal, "wait", Options::default()).await;
        after(5).await;
        durable.pause(uid, "me").await.expect("it is there");
        after(10).await;
        let found = figures(&executor).await;
        assert_eq!(found["requests test.lab:1:order paused"], 1.0, "{found:?}");
        assert_eq!(found["requests test.lab:1:wait parked"], 1.0, "{found:?}");
        assert!(found["oldest test.lab:1:wait parked"] >= 15.0, "{found:?}");
    });
}

#[test]
fn a_journal_that_is_away_shows_as_such_and_not_as_an_empty_one() {
    run(async {
        let lab = lab();
        let is_away = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&is_away);
        let faults = move |operation: Operation| match seen.load(Ordering::Relaxed) {
            true if operation == Operation::Load => Fault::NeverAnswered,
            _ => Fault::None,
        };
        let (durable, executor) = lab.process(lab.journal().faults(faults));
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        let asked = figures(&executor).await;
        assert_eq!(asked["journal_up"], 1.0);
        is_away.store(true, Ordering::Relaxed);
        assert_eq!(figures(&executor).await["journal_up"], 1.0, "it is not asked each time");
        after(6).await;
        let found = figures(&executor).await;
        assert_eq!((found["journal_up"], found.get("stored_requests")), (0.0, None));
        is_away.store(false, Ordering::Relaxed);
        after(6).await;
        assert_eq!(figures(&executor).await["journal_up"], 1.0);
    });
}

#[test]
fn a_request_of_a_schedule_that_does_not_begin_is_late() {
    run(async {
        let lab = lab();
        let is_busy = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&is_busy);
        let faults = move |operation: Operation| match seen.load(Ordering::Relaxed) {
            true if operation == Operation::Claim => Fault::NotDone,
            _ => Fault::None,
        };
        let (durable, executor) = lab.process(lab.journal().faults(faults));
        let ann = User::new("ann", SecurityLevel::SafeOps);
        let hourly = Schedule::new("hourly", "@hourly").expect("it is right").caller(&ann);
        durable.schedule(hourly, "test.lab:1.0:wait", json!({})).expect("it is declared");
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        after(3_610).await;
        let found = figures(&executor).await;
        assert_eq!(found.get("schedule_lag test.lab:1:wait"), Some(&0.0), "{found:?}");
        is_busy.store(true, Ordering::Relaxed);
        after(3_600).await;
        let late = figures(&executor).await["schedule_lag test.lab:1:wait"];
        assert!((1.0..=3_600.0).contains(&late), "{late}");
        after(60).await;
        let later = figures(&executor).await["schedule_lag test.lab:1:wait"];
        assert!((late + 59.0..=late + 61.0).contains(&later), "{late} {later}");
        is_busy.store(false, Ordering::Relaxed);
        after(10).await;
        let found = figures(&executor).await;
        assert_eq!(found.get("schedule_lag test.lab:1:wait"), Some(&0.0), "{found:?}");
    });
}

#[test]
fn alerts_and_dashboard_name_figures_that_there_are() {
    run(async {
        let (durable, executor) = lab().process(Memory::default());
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        let unit = |kind| match kind {
            MetricKind::Gauge => "",
            MetricKind::Seconds => "_seconds",
            MetricKind::Bytes => "_bytes",
            MetricKind::Total => "_total",
        };
        let metrics = executor.host_metrics().await;
        let mut known: BTreeSet<_> =
            metrics.iter().map(|it| format!("{}{}", it.name, unit(it.kind))).collect();
        // storages on disk have these
        known.extend(["stored", "log"].map(|it| format!("asyncsteps_durable_{it}_bytes")));
        let shown = [
            include_str!("../../../observe/monitoring/alerts.yml"),
            include_str!("../../../observe/monitoring/dashboard.json"),
        ];
        let words =
            shown.iter().flat_map(|it| it.split(|c: char| !c.is_ascii_lowercase() && c != '_'));
        let named: BTreeSet<_> = words.filter(|it| it.starts_with("asyncsteps_durable_")).collect();
        assert!(named.len() > 8, "{named:?}");
        let unknown: Vec<_> = named.iter().filter(|it| !known.contains(**it)).collect();
        assert!(unknown.is_empty(), "{unknown:?} of {known:?}");
    });
}

#[test]
fn a_list_is_as_long_as_it_is_asked_for() {
    run(async {
        let lab = lab();
        let journal = lab.journal();
        let durable: Durable = lab.process(journal.clone()).0;
        for _ in 0..2_010 {
            lab.submit(&journal, "order", Options::default()).await;
        }
        for (limit, found) in [(0, 0), (1_000, 1_000), (2_005, 2_005), (9_999, 2_010)] {
            let flows = durable.list(Query { limit, ..Query::default() }).await;
            let mut numbers: Vec<_> = flows.expect("a list").iter().map(|it| it.number).collect();
            numbers.dedup();
            assert_eq!(numbers.len(), found);
        }
    });
}
