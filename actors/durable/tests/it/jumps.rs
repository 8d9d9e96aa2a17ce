//! The clock of the journal jumps: waits take as long as declared, and nothing begins, ends or is forgotten
//! because of a jump alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use asyncsteps_core::{Error, Retry, codes};
use asyncsteps_durable::{Durable, Node, Options, journal};
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Cx, Executor, Returns, Service, Steps};
use asyncsteps_journal::memory::{Fault, Memory};
use asyncsteps_journal::record::Ending;
use asyncsteps_journal::request::FlowState;
use asyncsteps_journal::{Clock, Journal as _, LEASE, Timestamp, TokioClock, Uid};
use serde_json::json;

use crate::lab::Nothing;
use crate::log::logged;
use crate::node::run;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

const SOON: Duration = Duration::from_secs(8);

/// How long each wait of the functions takes.
const WAIT: Duration = Duration::from_secs(30);

/// A clock that jumps.
#[derive(Clone, Debug)]
struct JumpingClock {
    clock: TokioClock,
    ahead: Arc<AtomicI64>,
}

impl JumpingClock {
    fn start() -> Self {
        Self { clock: TokioClock::start(), ahead: Arc::default() }
    }

    /// It is so much ahead from now on.
    fn is_ahead(&self, ahead: Duration) {
        let millis = i64::try_from(ahead.as_millis()).expect("some days");
        self.ahead.store(millis, Ordering::Relaxed);
    }
}

impl Clock for JumpingClock {
    fn now(&self) -> Timestamp {
        let now = self.clock.now().as_millis();
        Timestamp::from_millis(now.saturating_add_signed(self.ahead.load(Ordering::Relaxed)))
    }
}

#[derive(Clone)]
struct Waiter {
    clock: JumpingClock,
    /// What an undo needs is away for its first attempt.
    is_away: Arc<AtomicBool>,
}

impl Service for Waiter {
    type Errors = ();
}

/// Its first attempt fails.
fn again(steps: &Steps<Waiter, Nothing>) -> Returns<()> {
    steps
        .run("fail", async |_, ()| Err(Error::new("Again").into()))
        .recorded()
        .retry(Retry::attempts(2).backoff(WAIT).on_code("Again"))
        .recover(async |_, _| Ok(()))
        .returns()
}

fn pause(steps: &Steps<Waiter, Nothing>) -> Returns<()> {
    steps.pause("pause", WAIT).returns()
}

fn signal(steps: &Steps<Waiter, Nothing>) -> Returns<()> {
    let wait = steps.wait_signal_within::<()>("never", WAIT);
    wait.then("end", async |_, _| Ok(())).recorded().returns()
}

/// Until a time of day.
fn pause_until(steps: &Steps<Waiter, Nothing>) -> Returns<()> {
    steps.pause_until("pause", |cx, ()| cx.soon()).returns()
}

fn signal_until(steps: &Steps<Waiter, Nothing>) -> Returns<()> {
    let wait = steps.wait_signal_until::<()>("never", |cx, ()| cx.soon());
    wait.then("end", async |_, _| Ok(())).recorded().returns()
}

/// It is in time limits, and does not end by itself.
fn limit(steps: &Steps<Waiter, Nothing>) -> Returns<()> {
    let stay = async |_: &Cx<_, _>, ()| {
        tokio::time::sleep(100 * DAY).await;
        Ok(())
    };
    steps
        .nested("limited", |steps| steps.run("stay", stay).recorded().returns())
        .timeout(WAIT)
        .recover(async |_, _| Ok(()))
        .returns()
}

/// The same by a limit that the function sets on itself.
fn own(steps: &Steps<Waiter, Nothing>) -> Returns<()> {
    steps.timeout(WAIT).wait_signal("never").returns()
}

fn forever(steps: &Steps<Waiter, Nothing>) -> Returns<()> {
    steps.wait_signal("never").returns()
}

/// It has done two things when it waits, the second of which is not undone at once.
fn booked(steps: &Steps<Waiter, Nothing>) -> Returns<()> {
    steps
        .run("seat", async |_, ()| Ok(()))
        .recorded()
        .undo(async |_, _| Ok(()))
        .then("room", async |_, ()| Ok(()))
        .recorded()
        .undo(async |cx, _| match cx.is_away.swap(false, Ordering::Relaxed) {
            true => Err(Error::new(codes::COMM_ERROR).into()),
            false => Ok(()),
        })
        .then_wait_signal("never")
        .returns()
}

const FUNCTIONS: [&str; 5] = ["again", "pause", "signal", "limit", "own"];

impl Waiter {
    fn new() -> (Self, Memory) {
        let clock = JumpingClock::start();
        let journal = Memory::new(clock.clone());
        (Self { clock, is_away: Arc::new(AtomicBool::new(true)) }, journal)
    }

    /// A time of day that is too close for a request to be put aside.
    fn soon(&self) -> SystemTime {
        let now = Duration::from_millis(self.clock.now().as_millis());
        SystemTime::UNIX_EPOCH + now + SOON
    }

    async fn start(&self, journal: &Memory) -> (Durable, Node) {
        let durable = Durable::new(journal.clone()).remembers(3 * HOUR);
        let interface = Interface::new("test.waiter:1.0".parse().expect("it is a name"));
        let executor = Executor::builder().service(interface, self.clone(), |functions| {
            durable.on(functions, "again", again);
            durable.on(functions, "pause", pause);
            durable.on(functions, "signal", signal);
            durable.on(functions, "limit", limit);
            durable.on(functions, "own", own);
            durable.on(functions, "pauseUntil", pause_until);
            durable.on(functions, "signalUntil", signal_until);
            durable.on(functions, "forever", forever);
            durable.on(functions, "booked", booked);
        });
        let executor = executor.build().expect("the interface is complete");
        let node = durable.start(&executor).await.expect("the journal gives a lease");
        (durable, node)
    }
}

async fn submit(durable: &Durable, function: &str, options: Options) -> Uid {
    let ann = User::new("ann", SecurityLevel::SafeOps);
    let function = format!("test.waiter:1.0:{function}");
    let uid = durable.submit(&function, json!({}), options.caller(&ann)).await;
    uid.expect("it is accepted")
}

/// The end of a request, if it comes within this time.
async fn ended(durable: &Durable, uid: Uid, within: Duration) -> Option<Ending> {
    let ended = tokio::time::timeout(within, durable.ended(uid)).await;
    ended.ok().map(|ending| ending.expect("the flow is known"))
}

#[test]
fn a_wait_that_began_while_the_clock_was_ahead_ends_within_its_time() {
    for function in FUNCTIONS {
        run(async {
            let (waiter, journal) = Waiter::new();
            waiter.clock.is_ahead(DAY);
            let (durable, node) = waiter.start(&journal).await;
            let uid = submit(&durable, function, Options::default()).await;
            tokio::time::sleep(WAIT / 3).await;
            drop(node);
            waiter.clock.is_ahead(Duration::ZERO);
            let (durable, _node) = waiter.start(&journal).await;
            assert!(ended(&durable, uid, LEASE + WAIT).await.is_some(), "{function}");
        });
    }
}

#[test]
fn a_wait_until_a_time_of_day_follows_the_clock() {
    for (function, dies) in ["pauseUntil", "signalUntil"].into_iter().zip([false, true]) {
        run(async {
            let (waiter, journal) = Waiter::new();
            waiter.clock.is_ahead(DAY);
            let (mut durable, mut node) = waiter.start(&journal).await;
            let uid = submit(&durable, function, Options::default()).await;
            tokio::time::sleep(SECOND).await;
            waiter.clock.is_ahead(Duration::ZERO);
            if dies {
                drop(node);
                tokio::time::sleep(2 * LEASE).await;
                (durable, node) = waiter.start(&journal).await;
            }
            let early = ended(&durable, uid, 2 * SOON).await;
            assert_eq!(early, None, "{function}: it is yesterday");
            assert!(ended(&durable, uid, DAY).await.is_some(), "{function}");
            drop(node);
        });
    }
}

#[test]
fn a_wait_until_a_time_of_day_ends_then() {
    for function in ["pauseUntil", "signalUntil"] {
        run(async {
            let (waiter, journal) = Waiter::new();
            let (durable, _node) = waiter.start(&journal).await;
            let uid = submit(&durable, function, Options::default()).await;
            assert_eq!(ended(&durable, uid, SOON - SECOND / 2).await, None, "{function}");
            let ending = ended(&durable, uid, SECOND).await;
            assert!(matches!(ending, Some(Ending::Completed(_))), "{function}: {ending:?}");
        });
    }
}

#[test]
fn ended_requests_are_not_forgotten_because_of_a_jump() {
    run(async {
        let (waiter, journal) = Waiter::new();
        let (durable, _node) = waiter.start(&journal).await;
        let uid = submit(&durable, "pause", Options::default()).await;
        ended(&durable, uid, DAY).await.expect("it ends");
        waiter.clock.is_ahead(DAY);
        assert_eq!(durable.trim(HOUR).await.expect("it trims"), 0);
        tokio::time::sleep(HOUR / 2).await;
        assert_eq!(durable.trim(HOUR).await.expect("it trims"), 0);
        tokio::time::sleep(HOUR).await;
        assert_eq!(durable.trim(HOUR).await.expect("it trims"), 1);
    });
}

#[test]
fn a_node_forgets_what_ended_earlier_than_its_program_remembers() {
    run(async {
        let (waiter, journal) = Waiter::new();
        let (durable, _node) = waiter.start(&journal).await;
        let uid = submit(&durable, "pause", Options::default()).await;
        ended(&durable, uid, DAY).await.expect("it ends");
        tokio::time::sleep(2 * HOUR).await;
        durable.status(uid).await.expect("it is remembered");
        tokio::time::sleep(2 * HOUR).await;
        let forgotten = durable.status(uid).await.expect_err("it ended long ago");
        assert!(
            matches!(forgotten, journal::Error::Refused(journal::Refused::NoFlow(_))),
            "{forgotten}"
        );
    });
}

#[test]
fn a_deadline_that_passes_by_a_jump_waits_for_a_second_reading() {
    run(async {
        let (waiter, journal) = Waiter::new();
        let (durable, _node) = waiter.start(&journal).await;
        let options = Options::default().deadline(waiter.clock.now().after(HOUR));
        let uid = submit(&durable, "limit", options).await;
        tokio::time::sleep(SECOND).await;
        // for a moment
        waiter.clock.is_ahead(DAY);
        tokio::time::sleep(4 * SECOND).await;
        waiter.clock.is_ahead(Duration::ZERO);
        let ending = ended(&durable, uid, 2 * WAIT).await;
        assert!(matches!(ending, Some(Ending::Completed(_))), "{ending:?}");
    });
}

/// Found by seed 1074 of the simulated cluster: what was undone by the deadline was missing in a request that completed.
#[test]
fn a_deadline_that_has_passed_is_decided_although_the_clock_is_set_back() {
    for dies in [false, true] {
        run(async {
            let (waiter, journal) = Waiter::new();
            let (mut durable, mut node) = waiter.start(&journal).await;
            let options = Options::default().deadline(waiter.clock.now().after(HOUR));
            let uid = submit(&durable, "booked", options).await;
            tokio::time::sleep(SECOND).await;
            if dies {
                drop(node);
                waiter.clock.is_ahead(DAY);
                (durable, node) = waiter.start(&journal).await;
            }
            waiter.clock.is_ahead(DAY);
            let is_waiting = async || {
                let status = durable.status(uid).await.expect("the flow is known");
                status.flow.reason.is_some_and(|reason| reason.contains("CommError"))
            };
            while !is_waiting().await {
                tokio::time::sleep(SECOND / 10).await;
            }
            waiter.clock.is_ahead(Duration::ZERO);
            let ending = ended(&durable, uid, 2 * LEASE).await;
            assert!(
                matches!(&ending, Some(Ending::Failed(it)) if it.code == codes::TIMEOUT),
                "{ending:?}"
            );
            drop(node);
        });
    }
}

#[test]
fn a_start_that_passes_by_a_jump_waits_for_a_second_reading() {
    run(async {
        let (waiter, journal) = Waiter::new();
        let (durable, _node) = waiter.start(&journal).await;
        let options = Options::default().start(waiter.clock.now().after(HOUR));
        let uid = submit(&durable, "limit", options).await;
        tokio::time::sleep(SECOND).await;
        // for a moment
        waiter.clock.is_ahead(DAY);
        tokio::time::sleep(4 * SECOND).await;
        waiter.clock.is_ahead(Duration::ZERO);
        tokio::time::sleep(60 * SECOND).await;
        let status = durable.status(uid).await.expect("it is known");
        assert_eq!(status.flow.state, FlowState::Parked);
        assert!(ended(&durable, uid, HOUR + 2 * WAIT).await.is_some(), "it begins in its time");
    });
}

#[test]
fn a_series_of_restarts_makes_no_wait_longer() {
    for function in ["again", "pause", "signal", "own"] {
        run(async {
            let (waiter, journal) = Waiter::new();
            waiter.clock.is_ahead(10 * DAY);
            let (durable, node) = waiter.start(&journal).await;
            let uid = submit(&durable, function, Options::default()).await;
            tokio::time::sleep(SECOND).await;
            drop(node);
            let mut ran = Duration::ZERO;
            // each finds the clock a day further back; it gets the request when the lease before it has ended
            for days in (0..10).rev() {
                waiter.clock.is_ahead(days * DAY);
                let (durable, node) = waiter.start(&journal).await;
                let run = LEASE + 10 * SECOND;
                let ending = ended(&durable, uid, run).await;
                drop(node);
                if ending.is_some() {
                    return;
                }
                ran += run;
                assert!(ran <= 2 * (LEASE + WAIT), "{function}");
            }
        });
    }
}

#[test]
fn a_jump_moves_no_wait_that_runs_and_is_told() {
    for function in FUNCTIONS {
        run(async {
            let (waiter, journal) = Waiter::new();
            let (durable, _node) = waiter.start(&journal).await;
            let uid = submit(&durable, function, Options::default()).await;
            tokio::time::sleep(5 * SECOND).await;
            assert_eq!(durable.clock_jump(), None);
            waiter.clock.is_ahead(DAY);
            assert_eq!(ended(&durable, uid, WAIT / 2).await, None, "{function}");
            let jump = durable.clock_jump().expect("the node has looked");
            assert!(jump.to > jump.from.after(DAY / 2), "{jump:?}");
            assert!(ended(&durable, uid, WAIT).await.is_some(), "{function}");
            let uid = submit(&durable, function, Options::default()).await;
            tokio::time::sleep(5 * SECOND).await;
            waiter.clock.is_ahead(Duration::ZERO);
            assert_eq!(ended(&durable, uid, WAIT / 2).await, None, "{function}");
            assert!(ended(&durable, uid, WAIT).await.is_some(), "{function}");
        });
    }
}

#[test]
fn a_jump_that_a_node_finds_as_it_begins_ends_no_lease() {
    let text = logged(async {
        let (waiter, journal) = Waiter::new();
        let (durable, _node) = waiter.start(&journal).await;
        let uid = submit(&durable, "forever", Options::default()).await;
        tokio::time::sleep(SECOND).await;
        let before = durable.status(uid).await.expect("it is known").flow;
        waiter.clock.is_ahead(DAY);
        // a node of another process begins before this one has looked at the clock
        journal.register(LEASE).await.expect("the journal gives a lease");
        tokio::time::sleep(2 * LEASE).await;
        let after = durable.status(uid).await.expect("it is known").flow;
        assert_eq!((after.epoch, after.claims), (before.epoch, before.claims));
    });
    assert!(!text.contains("lost its lease"), "{text}");
}

#[test]
fn a_lease_that_ends_because_of_jumps_is_told_so() {
    let text = logged(async {
        let (waiter, journal) = Waiter::new();
        let (durable, _node) = waiter.start(&journal).await;
        let uid = submit(&durable, "forever", Options::default()).await;
        tokio::time::sleep(SECOND).await;
        for days in 1..=3 {
            waiter.clock.is_ahead(days * DAY);
            // a node of another process begins before this one has looked at the clock
            journal.register(LEASE).await.expect("the journal gives a lease");
        }
        tokio::time::sleep(2 * LEASE).await;
        let jump = durable.clock_jump().expect("the node has found it");
        assert!(jump.to > jump.from.after(DAY / 2), "{jump:?}");
        let state = durable.status(uid).await.expect("it is known").flow.state;
        assert!(matches!(state, FlowState::Running | FlowState::Parked), "{state:?}");
    });
    let lines: Vec<_> = text.lines().filter(|line| line.contains("WARN")).collect();
    let [lost, jumped] = lines[..] else { panic!("{text}") };
    assert!(lost.contains("has ended it before its time"), "{lost}");
    assert!(jumped.contains("the clock of the journal has jumped"), "{jumped}");
}

#[test]
fn a_lease_that_was_not_renewed_is_told_so() {
    let text = logged(async {
        let (waiter, journal) = Waiter::new();
        let silent = Arc::new(AtomicBool::new(false));
        let faults = Arc::clone(&silent);
        let journal = journal.faults(move |_| match faults.load(Ordering::Relaxed) {
            true => Fault::NotDone,
            false => Fault::None,
        });
        let (durable, _node) = waiter.start(&journal).await;
        silent.store(true, Ordering::Relaxed);
        tokio::time::sleep(2 * LEASE).await;
        silent.store(false, Ordering::Relaxed);
        tokio::time::sleep(2 * LEASE).await;
        assert_eq!(durable.clock_jump(), None);
    });
    let lost = text.lines().find(|line| line.contains("has lost its lease"));
    let lost = lost.unwrap_or_else(|| panic!("{text}"));
    assert!(lost.contains("the journal did not answer"), "{lost}");
    assert!(!text.contains("has jumped"), "{text}");
}

#[test]
fn a_clock_that_was_set_right_is_followed() {
    run(async {
        let (waiter, journal) = Waiter::new();
        let (durable, _node) = waiter.start(&journal).await;
        let later = waiter.clock.now().after(12 * HOUR);
        let late = submit(&durable, "pause", Options::default().start(later)).await;
        let ends = submit(&durable, "forever", Options::default().deadline(later)).await;
        tokio::time::sleep(SECOND).await;
        waiter.clock.is_ahead(DAY);
        assert!(ended(&durable, late, 2 * WAIT).await.is_some(), "it begins");
        let ending = ended(&durable, ends, 3 * WAIT).await;
        assert!(matches!(ending, Some(Ending::Failed(_))), "{ending:?}");
    });
}
