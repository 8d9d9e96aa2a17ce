//! Requests that begin at the times of a schedule: each once, whatever becomes of the nodes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use asyncsteps_durable::{
    BACKFILL, Durable, NotScheduled, NotSubmitted, Overlap, SKIPPED, Schedule,
};
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Executor, Returns, Service, Steps};
use asyncsteps_journal::memory::{Fault, Memory, Operation};
use asyncsteps_journal::request::{FlowState, Query};
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
    /// How long one takes.
    takes: Duration,
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
            asyncsteps_core::sleep(cx.takes).await;
            Ok(())
        })
        .recorded()
        .returns()
}

impl Reports {
    fn new() -> Self {
        Self { clock: TokioClock::start(), takes: Duration::ZERO, made: Arc::default() }
    }

    /// Those that take two minutes and a half.
    fn slow() -> Self {
        Self { takes: Duration::from_secs(150), ..Self::new() }
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
        self.declared(journal, Schedule::new("reports", expression).expect("it is right"))
    }

    /// The same with this schedule.
    fn declared(&self, journal: Memory, schedule: Schedule) -> (Durable, Executor) {
        let (durable, executor) = self.process(journal);
        let ann = User::new("ann", SecurityLevel::SafeOps);
        let schedule = schedule.caller(&ann);
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

/// The schedule of each minute, of reports that take two and a half.
fn minutely(overlap: Overlap) -> Schedule {
    Schedule::new("reports", "* * * * *").expect("it is right").overlap(overlap)
}

/// How many requests were skipped.
async fn skipped(durable: &Durable) -> usize {
    let ended = Query { state: Some(FlowState::Ended), limit: 1000, ..Query::default() };
    let ended = durable.list(ended).await.expect("listed");
    ended.iter().filter(|flow| flow.outcome.as_deref() == Some(SKIPPED)).count()
}

#[test]
fn requests_overlap_as_their_schedule_says() {
    // it is 13:46:40; a report takes until the third minute
    for (overlap, made, skips) in
        [(Overlap::Skip, vec![47, 50, 53, 56, 59], 8), (Overlap::Allow, (47..60).collect(), 0)]
    {
        run(async {
            let reports = Reports::slow();
            let journal = Memory::new(reports.clock);
            let processes = [(); 2].map(|()| reports.declared(journal.clone(), minutely(overlap)));
            let mut nodes = Vec::new();
            for (durable, executor) in &processes {
                nodes.push(durable.start(executor).await.expect("the journal gives a lease"));
            }
            tokio::time::sleep(13 * MINUTE).await;
            assert_eq!(reports.minutes(), made, "{overlap:?}");
            assert_eq!(skipped(&processes[0].0).await, skips, "{overlap:?}");
        });
    }
    run(async {
        let reports = Reports::slow();
        let (durable, executor) =
            reports.declared(Memory::new(reports.clock), minutely(Overlap::BufferOne));
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        tokio::time::sleep(13 * MINUTE).await;
        // one after the other, each at the end of the one before: of three times, one or two are skipped
        let made = reports.minutes();
        assert_eq!(made, [47, 49, 52, 54, 57, 59], "{made:?}");
        assert!((5..8).contains(&skipped(&durable).await));
    });
}

#[test]
fn of_requests_that_may_overlap_only_so_many_do() {
    run(async {
        let reports = Reports::slow();
        let schedule = minutely(Overlap::Allow);
        let (durable, executor) = reports.declared(Memory::new(reports.clock), schedule);
        let durable = durable.waiting_per_caller(2);
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        tokio::time::sleep(8 * MINUTE).await;
        assert_eq!(reports.minutes(), [47, 48, 50, 51, 53, 54]);
    });
}

#[test]
fn what_is_too_late_is_made_up_for_by_the_last_time() {
    for (minutes, made) in [(3, &[50, 12, 15][..]), (1, &[50, 15])] {
        run(async {
            let reports = Reports::new();
            let journal = Memory::new(reports.clock);
            let schedule = Schedule::new("reports", "*/5 * * * *").expect("it is right");
            let schedule = schedule.catch_up(minutes * MINUTE);
            let (durable, executor) = reports.declared(journal.clone(), schedule.clone());
            let node = durable.start(&executor).await.expect("the journal gives a lease");
            tokio::time::sleep(5 * MINUTE).await;
            node.stop().await;
            tokio::time::sleep(20 * MINUTE + MINUTE / 2).await;
            let (durable, executor) = reports.declared(journal, schedule);
            // it is 14:12:10
            let _node = durable.start(&executor).await.expect("the journal gives a lease");
            tokio::time::sleep(5 * MINUTE).await;
            assert_eq!(reports.minutes(), made, "{minutes}");
        });
    }
}

#[test]
fn a_paused_schedule_begins_nothing_on_any_node() {
    run(async {
        let reports = Reports::new();
        let journal = Memory::new(reports.clock);
        let processes = [(); 2].map(|()| reports.scheduled(journal.clone(), "*/5 * * * *"));
        let mut nodes = Vec::new();
        for (durable, executor) in &processes {
            nodes.push(durable.start(executor).await.expect("the journal gives a lease"));
        }
        let [(one, _), (two, _)] = &processes;
        let unknown = one.pause_schedule("others").await;
        assert!(matches!(unknown, Err(NotScheduled::NoSchedule(_))), "{unknown:?}");
        // it is 13:49:40
        tokio::time::sleep(3 * MINUTE).await;
        one.pause_schedule("reports").await.expect("it is declared");
        tokio::time::sleep(14 * MINUTE).await;
        assert_eq!(reports.minutes(), [0_u64; 0]);
        assert_eq!(skipped(one).await, 1, "the one that was stored");
        // one request for the operator, and then the times that come
        let now = one.trigger_schedule("reports").await.expect("it is declared");
        one.ended(now).await.expect("it ends");
        two.resume_schedule("reports").await.expect("it is declared");
        tokio::time::sleep(5 * MINUTE).await;
        assert_eq!(reports.minutes(), [3, 5]);
    });
}

#[test]
fn a_request_that_is_stored_just_before_its_time_was_not_asked_for() {
    run(async {
        let reports = Reports::new();
        let (durable, executor) = reports.scheduled(Memory::new(reports.clock), "*/5 * * * *");
        // it is 13:49:55
        tokio::time::sleep(3 * MINUTE + MINUTE / 4).await;
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        tokio::time::sleep(Duration::from_secs(1)).await;
        durable.pause_schedule("reports").await.expect("it is declared");
        tokio::time::sleep(4 * MINUTE).await;
        assert_eq!(reports.minutes(), [0_u64; 0]);
        assert_eq!(skipped(&durable).await, 1);
    });
}

#[test]
fn lost_times_are_backfilled_once_and_one_after_the_other() {
    run(async {
        let reports = Reports::slow();
        let (durable, executor) = reports.scheduled(Memory::new(reports.clock), "*/5 * * * *");
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        let begin = reports.clock.now();
        tokio::time::sleep(4 * MINUTE).await;
        durable.pause_schedule("reports").await.expect("it is declared");
        tokio::time::sleep(14 * MINUTE).await;
        let until = reports.clock.now();
        // 13:50, 13:55 and 14:00, of which the first is begun
        let made = durable.backfill_schedule("reports", begin, until).await.expect("begun");
        let again = durable.backfill_schedule("reports", begin, until).await.expect("begun");
        assert_eq!((made.len(), &made), (3, &again));
        for uid in made {
            durable.ended(uid).await.expect("it ends");
        }
        let minutes = reports.minutes();
        assert_eq!((minutes.len(), minutes[0]), (3, 50));
        assert!(minutes[2] >= minutes[1] + 2, "a report takes so long: {minutes:?}");
        let long = Timestamp::from_millis(begin.as_millis() - (BACKFILL as u64 * 300_000));
        let refused = durable.backfill_schedule("reports", long, until).await;
        assert!(matches!(refused, Err(NotScheduled::TooManyTimes(_))), "{refused:?}");
    });
}
