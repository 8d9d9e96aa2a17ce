//! What a crash, a cancel, a deploy or a stranger's lease does to a request, rule by rule.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use asyncsteps_core::sim::Random;
use asyncsteps_core::{BodyResult, Undo};
use asyncsteps_durable::{Cancelling, Options};
use asyncsteps_executor::{Cx, Returns, Steps};
use asyncsteps_journal::memory::{Fault, Memory, Operation};
use asyncsteps_journal::record::Ending;
use asyncsteps_journal::request::{FlowState, Resume};
use asyncsteps_journal::{Event, Journal, LEASE, Limits, Record, Timestamp, Uid};

use crate::lab::{Lab, Nothing, at_each_record, result, soon};
use crate::node::{Crash, Kind, Until, run, run_until};

fn lab() -> Lab {
    Lab::with_programs(|program, durable, functions| {
        durable.on(functions, "once", once);
        durable.on(functions, "signalled", signalled);
        durable.on(functions, "many", many);
        durable.on(functions, "branches", branches);
        durable.on(functions, "slow", slow);
        durable.on(functions, "changed", move |steps: &Steps<_, _>| changed(steps, program));
        durable.on(functions, "dynamic", move |steps: &Steps<_, _>| dynamic(steps, program));
        durable.on(functions, "paused", paused);
        durable.on(functions, "read", read);
    })
}

/// The undo of an act.
async fn undoes(cx: &Cx<Lab, Nothing>, _: Undo<&()>) -> BodyResult<()> {
    cx.count("undo");
    Ok(())
}

fn once(steps: &Steps<Lab, Nothing>) -> Returns<String> {
    steps
        .run("before", async |_, ()| Ok(()))
        .recorded()
        .then("call", async |cx, ()| {
            cx.count("call");
            soon().await;
            Ok("called".to_owned())
        })
        .once()
        .recover(async |_, error| Ok(error.code().to_owned()))
        .then("after", async |_, called| {
            soon().await;
            Ok(called)
        })
        .recorded()
        .returns()
}

#[test]
fn a_body_runs_at_most_once_and_an_unknown_outcome_is_told() {
    run(at_each_record(
        lab,
        "once",
        async |_, _| {},
        |lab, ending, crash| {
            let called: String = result(ending);
            assert!(lab.counted("call") <= 1, "{crash:?}");
            match &*called {
                "called" => assert_eq!(lab.counted("call"), 1, "{crash:?}"),
                other => assert_eq!(other, "OutcomeUnknown", "{crash:?}"),
            }
        },
    ));
}

fn signalled(steps: &Steps<Lab, Nothing>) -> Returns<String> {
    steps
        .run("before", async |_, ()| Ok(()))
        .recorded()
        .then_wait_signal::<String>("early")
        .then_wait_signal_within::<String>("late", Duration::from_secs(500))
        .then_wait_signal_within::<u32>("never", Duration::from_secs(5))
        .then("after", async |cx, never| {
            assert_eq!(never, None);
            cx.count("after");
            Ok("signalled".to_owned())
        })
        .recorded()
        .returns()
}

#[test]
fn a_signal_comes_before_the_wait_or_during_it_and_a_timeout_is_kept() {
    let prepare = async |journal: &Memory, uid| {
        let lab = lab();
        let (durable, _) = lab.process(journal.clone());
        durable.signal(uid, "early", "bird").await.expect("the journal takes it");
        actix::spawn(async move {
            tokio::time::sleep(Duration::from_secs(100)).await;
            durable.signal(uid, "late", "show").await.expect("the journal takes it");
        });
    };
    run(at_each_record(lab, "signalled", prepare, |_, ending, _| {
        assert_eq!(result::<String>(ending), "signalled");
    }));
}

fn many(steps: &Steps<Lab, Nothing>) -> Returns<Vec<i32>> {
    steps
        .each(
            "items",
            |_, ()| (0..6).collect(),
            |item| {
                item.run("item", async |cx, item: i32| {
                    cx.count(format!("item {item}"));
                    let pause = u64::from((10 - item).unsigned_abs());
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                    Ok(item * item)
                })
                .recorded()
                .returns()
            },
        )
        .at_once(2)
        .returns()
}

#[test]
fn of_several_things_those_that_are_done_are_not_done_again() {
    run(at_each_record(
        lab,
        "many",
        async |_, _| {},
        |lab, ending, crash| {
            assert_eq!(result::<Vec<i32>>(ending), [0, 1, 4, 9, 16, 25]);
            let again = (0..6).filter(|item| lab.counted(&format!("item {item}")) > 1).count();
            // two at once, and one whose record was lost
            assert!(again <= 3, "{again} items were done again: {crash:?}");
        },
    ));
}

const BRANCHES: u64 = 64;

fn branches(steps: &Steps<Lab, Nothing>) -> Returns<i32> {
    steps
        .each(
            "all",
            |_, ()| (0..BRANCHES).collect(),
            |branch| {
                branch
                    .run("branch", async |cx, branch| {
                        let mut random = Random::new(u64::from(cx.program) * 1_000 + branch);
                        let pause = random.within(Duration::from_millis(20));
                        tokio::time::sleep(pause).await;
                        cx.count(format!("branch {branch}"));
                        Ok(branch)
                    })
                    .recorded()
                    .returns()
            },
        )
        .at_once(usize::try_from(BRANCHES).expect("it is small"))
        .then("sum", async |cx, _| {
            cx.count("sum");
            Ok(1)
        })
        .recorded()
        .returns()
}

#[test]
fn branches_that_end_in_any_order_are_the_same_after_a_crash() {
    let orders = if std::env::var_os("LONG_TESTS").is_some() { 1_000 } else { 100 };
    run(async move {
        for seed in 0..orders {
            let lab = lab().with_program(seed);
            let journal = lab.journal();
            let uid = lab.submit(&journal, "branches", Options::default()).await;
            let append = 1 + (seed as usize * 7) % 20;
            let crash = Crash { append, kind: Kind::AfterStored };
            let (ending, _) = lab.ended(&journal, uid, &[crash]).await;
            assert_eq!(result::<i32>(&ending), 1);
            assert_eq!(lab.counted("sum"), 1, "order {seed}");
            for branch in 0..BRANCHES {
                assert!(lab.counted(&format!("branch {branch}")) >= 1, "order {seed}");
            }
        }
    });
}

fn slow(steps: &Steps<Lab, Nothing>) -> Returns<String> {
    steps
        .run("act", async |cx, ()| {
            soon().await;
            cx.count("act");
            Ok(())
        })
        .recorded()
        .undo(undoes)
        .then("long", async |_, ()| {
            tokio::time::sleep(Duration::from_secs(1_000)).await;
            Ok("done".to_owned())
        })
        .recorded()
        .returns()
}

#[test]
fn a_cancel_undoes_what_was_done_whatever_crashes() {
    run(at_each_record(
        lab,
        "slow",
        async |journal: &Memory, uid| {
            let lab = lab();
            let (durable, _) = lab.process(journal.clone());
            actix::spawn(async move {
                tokio::time::sleep(Duration::from_secs(200)).await;
                let cancelled = durable.cancel(uid, "the test").await;
                assert!(matches!(cancelled, Ok(Cancelling::Requested)), "{cancelled:?}");
            });
        },
        |lab, ending, crash| {
            assert_eq!(*ending, Ending::Cancelled, "{crash:?}");
            assert!(lab.counted("undo") >= 1, "{crash:?}");
        },
    ));
}

/// Runs `slow` until all its steps are recorded, and its end is not.
async fn all_but_ended(lab: &Lab, journal: &Memory, uid: Uid) {
    loop {
        // the first one may be the intent
        let crash = Some(Crash { append: 2, kind: Kind::AfterStored });
        let crashed = run_until(journal, |journal| lab.process(journal), uid, crash).await;
        assert!(matches!(crashed, Until::Crashed), "the end is recorded too");
        let records = journal.load(uid).await.expect("it is known").records;
        let is_last = |record: &Record| {
            record.path.as_str().ends_with("/long") && matches!(record.event, Event::Done(_))
        };
        if records.iter().any(|stored| is_last(&stored.record)) {
            return;
        }
    }
}

#[test]
fn a_cancel_after_the_last_step_and_before_the_end_undoes_what_was_done() {
    run(at_each_record(
        lab,
        "slow",
        async |journal: &Memory, uid| {
            let lab = lab();
            all_but_ended(&lab, journal, uid).await;
            let (durable, _) = lab.process(journal.clone());
            let cancelled = durable.cancel(uid, "the test").await;
            assert!(matches!(cancelled, Ok(Cancelling::Requested)), "{cancelled:?}");
        },
        |lab, ending, crash| {
            assert_eq!(*ending, Ending::Cancelled, "{crash:?}");
            // again only if the record of it was lost
            assert!((1..=2).contains(&lab.counted("undo")), "{crash:?}");
        },
    ));
}

#[test]
fn a_request_that_had_not_ended_at_its_deadline_is_undone_also_if_its_steps_were_done() {
    run(async {
        let lab = lab();
        let journal = lab.journal();
        let deadline = Timestamp::from_millis(1_000_000_000).after(Duration::from_secs(5_000));
        let options = Options::default().deadline(deadline);
        let uid = lab.submit(&journal, "slow", options).await;
        all_but_ended(&lab, &journal, uid).await;
        tokio::time::sleep(Duration::from_secs(10_000)).await;
        let limit = Duration::from_secs(1_000);
        let ended = tokio::time::timeout(limit, lab.ended(&journal, uid, &[])).await;
        let (ending, _) = ended.expect("it ends");
        assert!(matches!(&ending, Ending::Failed(it) if it.code == "Timeout"), "{ending:?}");
        assert_eq!((lab.counted("act"), lab.counted("undo")), (1, 1));
    });
}

#[test]
fn a_deadline_ends_a_request_also_while_no_node_runs() {
    run(async {
        let lab = lab();
        let journal = lab.journal();
        let deadline = Timestamp::from_millis(1_000_000_000).after(Duration::from_secs(50));
        let options = Options::default().deadline(deadline);
        let uid = lab.submit(&journal, "slow", options).await;
        let crash = Crash { append: 2, kind: Kind::AfterStored };
        let (ending, _) = lab.ended(&journal, uid, &[crash]).await;
        let Ending::Failed(failure) = &ending else { panic!("{ending:?}") };
        assert_eq!(failure.code, "Timeout", "{failure:?}");
        assert_eq!(lab.counted("act"), lab.counted("undo"));
    });
}

#[test]
fn a_deploy_undoes_nothing() {
    run(async {
        let lab = lab();
        let journal = lab.journal();
        let mut uids = Vec::new();
        for _ in 0..100 {
            uids.push(lab.submit(&journal, "slow", Options::default()).await);
        }
        let (durable, executor) = lab.process(journal.clone());
        let node = durable.start(&executor).await.expect("the journal gives a lease");
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(node.running(), 100);
        node.stop().await;
        assert_eq!(lab.counted("undo"), 0);
        let (durable, executor) = lab.process(journal.clone());
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        for uid in uids {
            assert_eq!(durable.result::<String>(uid).await.expect("it ends"), "done");
        }
        assert_eq!((lab.counted("act"), lab.counted("undo")), (100, 0));
    });
}

fn changed(steps: &Steps<Lab, Nothing>, program: u32) -> Returns<i32> {
    let name = if program == 1 { "first" } else { "renamed" };
    steps.run(name, first).recorded().then("wait", wait).recorded().returns()
}

/// Only a request defines its steps: 3 does not say what a crash does to one, and 4 panics.
fn dynamic(steps: &Steps<Lab, Nothing>, program: u32) -> Returns<i32> {
    let part = move |part: &Steps<Lab, Nothing>, ()| {
        assert_ne!(program, 4, "a mistake of the program");
        let first = part.run("first", first).undo(undoes);
        if program == 3 { first } else { first.recorded() }.returns()
    };
    let begin = steps.run("begin", async |_, ()| Ok(())).recorded();
    begin.dynamic("part", part).then("wait", wait).recorded().returns()
}

async fn first(cx: &Cx<Lab, Nothing>, (): ()) -> BodyResult<()> {
    cx.count("first");
    Ok(())
}

async fn wait(_: &Cx<Lab, Nothing>, (): ()) -> BodyResult<i32> {
    tokio::time::sleep(Duration::from_secs(1)).await;
    Ok(7)
}

#[test]
fn a_program_that_lacks_a_recorded_step_pauses_the_request() {
    run(async {
        let lab = lab();
        let journal = lab.journal();
        let uid = lab.submit(&journal, "changed", Options::default()).await;
        let crash = Some(Crash { append: 1, kind: Kind::AfterStored });
        let crashed = run_until(&journal, |journal| lab.process(journal), uid, crash).await;
        assert!(matches!(crashed, Until::Crashed));
        let new = lab.clone().with_program(2);
        let (durable, executor) = new.process(journal.clone());
        let node = durable.start(&executor).await.expect("the journal gives a lease");
        tokio::time::sleep(Duration::from_secs(60)).await;
        let flow = durable.status(uid).await.expect("it is known").flow;
        assert_eq!(flow.state, FlowState::Paused);
        let reason = flow.reason.unwrap_or_default();
        for part in ["test.lab:1:changed/first is recorded", "renamed"] {
            assert!(reason.contains(part), "{reason}");
        }
        assert_eq!(lab.counted("first"), 1, "the renamed step did not run");
        node.stop().await;
        durable.resume(uid, Resume::Continue).await.expect("it is paused");
        let (ending, _) = lab.ended(&journal, uid, &[]).await;
        assert_eq!((result::<i32>(&ending), lab.counted("first")), (7, 1));
    });
}

#[test]
fn a_program_with_a_mistake_pauses_requests_that_have_done_something() {
    run(async {
        for program in [3, 4] {
            let lab = lab();
            let journal = lab.journal();
            let uid = lab.submit(&journal, "dynamic", Options::default()).await;
            let crash = Some(Crash { append: 1, kind: Kind::AfterStored });
            run_until(&journal, |journal| lab.process(journal), uid, crash).await;
            let wrong = lab.clone().with_program(program);
            let (durable, executor) = wrong.process(journal.clone());
            let node = durable.start(&executor).await.expect("the journal gives a lease");
            tokio::time::sleep(Duration::from_secs(60)).await;
            let flow = durable.status(uid).await.expect("it is known").flow;
            assert_eq!(flow.state, FlowState::Paused, "program {program}");
            node.stop().await;
            durable.resume(uid, Resume::Continue).await.expect("it is paused");
            let (ending, _) = lab.ended(&journal, uid, &[]).await;
            assert_eq!((result::<i32>(&ending), lab.counted("first")), (7, 1));
        }
    });
}

#[test]
fn a_request_whose_owners_die_in_it_is_a_dead_letter() {
    run(async {
        let lab = lab();
        let journal = lab.journal();
        let uid = lab.submit(&journal, "slow", Options::default()).await;
        // its first record is the intent of a body, and then the process dies
        let crash = Crash { append: 1, kind: Kind::AfterStored };
        for _ in 0..Limits::default().claims + 1 {
            let process = |journal| lab.process(journal);
            let run = run_until(&journal, process, uid, Some(crash));
            // a dead letter neither crashes a node nor ends
            let _ = tokio::time::timeout(LEASE * 10, run).await;
        }
        let other = lab.submit(&journal, "once", Options::default()).await;
        let (durable, executor) = lab.process(journal.clone());
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        let called: String = durable.result(other).await.expect("its neighbour goes on");
        assert_eq!(called, "called");
        // the lease of the last one that died has ended
        tokio::time::sleep(LEASE).await;
        let flow = durable.status(uid).await.expect("it is known").flow;
        assert_eq!(flow.state, FlowState::Dead, "{flow:?}");
    });
}

fn paused(steps: &Steps<Lab, Nothing>) -> Returns<String> {
    steps
        .pause("hour", Duration::from_secs(3600))
        .then("after", async |_, ()| Ok("paused".to_owned()))
        .repeatable()
        .returns()
}

#[test]
fn a_pause_ends_at_its_time_of_day() {
    run(async {
        let lab = lab();
        let journal = lab.journal();
        let began = tokio::time::Instant::now();
        let uid = lab.submit(&journal, "paused", Options::default()).await;
        let crash = Some(Crash { append: 1, kind: Kind::AfterStored });
        run_until(&journal, |journal| lab.process(journal), uid, crash).await;
        let (durable, executor) = lab.process(journal.clone());
        let node = durable.start(&executor).await.expect("the journal gives a lease");
        tokio::time::sleep(LEASE * 10).await;
        let flow = durable.status(uid).await.expect("it is known").flow;
        assert_eq!((node.running(), flow.state), (0, FlowState::Parked));
        let _: String = durable.result(uid).await.expect("it ends");
        let hour = Duration::from_secs(3600);
        let took = began.elapsed();
        assert!(took >= hour && took < hour + Duration::from_secs(10), "{took:?}");
    });
}

#[test]
fn a_node_that_loses_its_lease_drops_its_requests_and_another_one_ends_them() {
    run(async {
        let lab = lab();
        let journal = lab.journal();
        let uid = lab.submit(&journal, "slow", Options::default()).await;
        let first_lease = Arc::new(Mutex::new(true));
        let lease = Arc::clone(&first_lease);
        let faults = move |operation: Operation| {
            let is_first = std::mem::take(&mut *lease.lock().expect("nothing panics"));
            if operation == Operation::Lease && !is_first { Fault::NotDone } else { Fault::None }
        };
        let (stale, executor) = lab.process(journal.clone().faults(faults));
        let stale = stale.start(&executor).await.expect("the journal gives a lease");
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!((stale.running(), lab.counted("act")), (1, 1));
        let (durable, executor) = lab.process(journal.clone());
        let node = durable.start(&executor).await.expect("the journal gives a lease");
        tokio::time::sleep(LEASE * 2).await;
        assert_eq!((stale.running(), node.running()), (0, 1));
        assert_eq!(durable.result::<String>(uid).await.expect("it ends"), "done");
        assert_eq!((lab.counted("act"), lab.counted("undo")), (1, 0));
    });
}

/// In one branch steps that are repeated are around one with undo; another one fails.
fn read(steps: &Steps<Lab, Nothing>) -> Returns<()> {
    steps
        .join("both", |both| {
            let reads = both
                .run("read", async |_, ()| {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    Ok(())
                })
                .repeatable()
                .then("act", async |cx, ()| {
                    soon().await;
                    cx.count("act");
                    Ok(())
                })
                .recorded()
                .undo(async |cx, outcome| {
                    soon().await;
                    undoes(cx, outcome).await
                })
                .then("wait", async |_, ()| std::future::pending::<BodyResult<()>>().await)
                .repeatable();
            let fails = both.run("fail", async |_, ()| {
                tokio::time::sleep(Duration::from_millis(100)).await;
                BodyResult::<()>::Err("it fails".into())
            });
            (reads, fails.recorded())
        })
        .then("end", async |_, _| Ok(()))
        .recorded()
        .returns()
}

#[test]
fn steps_behind_one_that_is_repeated_are_undone_whatever_crashes() {
    run(at_each_record(
        lab,
        "read",
        async |_, _| {},
        |lab, ending, crash| {
            assert!(matches!(ending, Ending::Failed(_)), "{ending:?}: {crash:?}");
            assert!(lab.counted("act") >= 1 && lab.counted("undo") >= 1, "{crash:?}");
        },
    ));
}

#[test]
fn a_cancel_undoes_what_is_behind_a_step_that_is_repeated() {
    run(async {
        let lab = lab();
        let journal = lab.journal();
        let uid = lab.submit(&journal, "read", Options::default()).await;
        // the act is recorded
        let crash = Some(Crash { append: 2, kind: Kind::AfterStored });
        run_until(&journal, |journal| lab.process(journal), uid, crash).await;
        assert_eq!(lab.counted("act"), 1);
        let (durable, _) = lab.process(journal.clone());
        durable.cancel(uid, "the test").await.expect("it is recorded");
        let (ending, _) = lab.ended(&journal, uid, &[]).await;
        assert_eq!((ending, lab.counted("undo")), (Ending::Cancelled, 1));
    });
}
