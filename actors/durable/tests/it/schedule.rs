//! Requests that begin at the times of a schedule: each once, whatever becomes of the nodes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use asyncsteps_durable::{Durable, NotSubmitted, Schedule};
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Executor, Returns, Service, Steps};
use asyncsteps_journal::memory::{Fault, Memory, Operation};
use asyncsteps_journal::{Clock, Timestamp, TokioClock};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::node::run;

const FUNCTION: &str = "test.reports:1.0:report";

/// A minute of the schedule.
const MINUTE: Duration = Duration::from_secs(60);

/// The reports that were made, by when and for whom.
#[derive(Clone)]
struct Reports {
    clock: TokioClock,
    made: Arc<Mutex<Vec<(Timestamp, String)>>>,
}

impl Service for Reports {
    type Errors = ();
}

#[derive(Deserialize, JsonSchema)]
struct Report {
    of: String,
}

fn report(steps: &Steps<Reports, Report>) -> Returns<()> {
    steps
        .run("report", async |cx, ()| {
            let user = cx.request().user().map(|user| user.local_id().to_owned());
            let made = format!("{} for {}", cx.params.of, user.unwrap_or_default());
            cx.made.lock().expect("no test panics here").push((cx.clock.now(), made));
            Ok(())
        })
        .recorded()
        .returns()
}

impl Reports {
    fn new() -> Self {
        Self { clock: TokioClock::start(), made: Arc::default() }
    }

    /// A process with the function.
    fn process(&self, journal: Memory) -> (Durable, Executor) {
        let durable = Durable::new(journal);
        let interface = Interface::new("test.reports:1.0".parse().expect("it is a name"));
        let executor = Executor::builder().service(interface, self.clone(), |functions| {
            durable.on(functions, "report", report);
        });
        let executor = executor.build().expect("the interface is complete");
        (durable, executor)
    }

    /// The same with a schedule of this expression.
    fn scheduled(&self, journal: Memory, expression: &str) -> (Durable, Executor) {
        let (durable, executor) = self.process(journal);
        let ann = User::new("ann", SecurityLevel::SafeOps);
        let schedule = Schedule::new("reports", expression).expect("it is right").caller(&ann);
        durable.schedule(schedule, FUNCTION, json!({ "of": "sales" })).expect("it is declared");
        (durable, executor)
    }

    /// The minutes of the hour at which reports were made.
    fn minutes(&self) -> Vec<u64> {
        let made = self.made.lock().expect("no test panics here");
        made.iter()
            .map(|(time, report)| {
                assert_eq!(report, "sales for ann");
                time.as_millis() / 60_000 % 60
            })
            .collect()
    }
}

#[test]
fn several_nodes_begin_one_request_at_each_time() {
    run(async {
        let reports = Reports::new();
        let journal = Memory::new(reports.clock);
        // it is 13:46:40
        let processes = [(); 3].map(|()| reports.scheduled(journal.clone(), "*/5 * * * *"));
        let mut nodes = Vec::new();
        for (durable, executor) in &processes {
            nodes.push(durable.start(executor).await.expect("the journal gives a lease"));
        }
        tokio::time::sleep(30 * MINUTE).await;
        assert_eq!(reports.minutes(), [50, 55, 0, 5, 10, 15]);
    });
}

#[test]
fn a_time_without_a_node_is_made_up_for_once() {
    run(async {
        let reports = Reports::new();
        let journal = Memory::new(reports.clock);
        let (durable, executor) = reports.scheduled(journal.clone(), "*/5 * * * *");
        let node = durable.start(&executor).await.expect("the journal gives a lease");
        tokio::time::sleep(5 * MINUTE).await;
        node.stop().await;
        tokio::time::sleep(20 * MINUTE).await;
        assert_eq!(reports.minutes(), [50]);
        let (durable, executor) = reports.scheduled(journal, "*/5 * * * *");
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        tokio::time::sleep(10 * MINUTE).await;
        // it is 14:11 when the node begins
        assert_eq!(reports.minutes(), [50, 11, 15, 20]);
    });
}

#[test]
fn a_journal_that_fails_for_a_while_is_asked_again() {
    run(async {
        let reports = Reports::new();
        let begin = reports.clock.now();
        let clock = reports.clock;
        let journal = Memory::new(clock).faults(move |operation| {
            let is_early = clock.now() < begin.after(7 * MINUTE);
            if is_early && operation == Operation::Submit { Fault::NotDone } else { Fault::None }
        });
        let (durable, executor) = reports.scheduled(journal, "*/5 * * * *");
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        tokio::time::sleep(10 * MINUTE).await;
        assert_eq!(reports.minutes(), [55]);
    });
}

#[test]
fn a_schedule_takes_the_place_of_one_of_its_name() {
    run(async {
        let reports = Reports::new();
        let (durable, executor) = reports.scheduled(Memory::new(reports.clock), "*/5 * * * *");
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        tokio::time::sleep(Duration::from_secs(1)).await;
        let ann = User::new("ann", SecurityLevel::SafeOps);
        let hourly = Schedule::new("reports", "@hourly").expect("it is right").caller(&ann);
        durable.schedule(hourly, FUNCTION, json!({ "of": "sales" })).expect("it is declared");
        let other = Schedule::new("others", "@hourly").expect("it is right");
        let unknown = durable.schedule(other, "test.reports:1.0:other", json!({}));
        assert!(matches!(unknown, Err(NotSubmitted::NoFunction(name)) if name.ends_with("other")));
        tokio::time::sleep(80 * MINUTE).await;
        // the request of 13:50 was stored already
        assert_eq!(reports.minutes(), [50, 0, 0]);
    });
}
