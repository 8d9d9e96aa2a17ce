//! Programs that change while requests are open: steps with other names, and steps that are no more.

use std::time::Duration;

use asyncsteps_core::BodyResult;
use asyncsteps_durable::{Options, Recorded, Signals};
use asyncsteps_executor::{Cx, Next, Returns, Steps};
use asyncsteps_journal::Uid;
use asyncsteps_journal::memory::Memory;
use asyncsteps_journal::record::Ending;
use asyncsteps_journal::request::{FlowState, Resume};

use crate::lab::{Lab, Nothing, result, soon};
use crate::node::{Crash, Kind, Until, run, run_until};

pub(crate) fn lab() -> Lab {
    Lab::new(|durable, functions| {
        durable.on(functions, "renamed", renamed);
        durable.on(functions, "shorter", shorter);
        durable.on(functions, "looping", looping);
        durable.on(functions, "longer", longer);
    })
}

/// An effect that is known by its key.
async fn act(cx: &Cx<Lab, Nothing>) -> BodyResult<()> {
    let (_, key) = cx.key().split_once('-').expect("the id is in front");
    cx.count(key);
    soon().await;
    Ok(())
}

fn renamed(asi: &mut Steps<Lab, Nothing>) -> Returns<String> {
    match asi.cx().program {
        1 => {
            asi.run("charge", async |cx, ()| act(cx).await).recorded();
            asi.substeps("deliver", |asi, ()| {
                asi.run("pack", async |cx, ()| act(cx).await).once();
                asi.run("send", async |cx, ()| act(cx).await).recorded().into()
            });
            asi.wait_for::<String>("paid").into()
        }
        2 => {
            asi.run("debit", async |cx, ()| act(cx).await).was("charge").recorded();
            asi.substeps("hand over", |asi, ()| {
                asi.run("wrap", async |cx, ()| act(cx).await).once().was("pack");
                asi.run("send", async |cx, ()| act(cx).await).recorded().into()
            })
            .was("deliver");
            asi.wait_for::<String>("money").was("paid").into()
        }
        _ => {
            asi.run("take", async |cx, ()| act(cx).await).was("debit").was("charge").recorded();
            asi.substeps("bring", |asi, ()| {
                asi.run("wrap", async |cx, ()| act(cx).await).once().was("pack");
                asi.run("send", async |cx, ()| act(cx).await).recorded().into()
            })
            .was("hand over")
            .was("deliver");
            asi.run("check", async |cx, ()| act(cx).await).recorded();
            asi.wait_for::<String>("money").was("paid").into()
        }
    }
}

/// Runs one program after the other, each of which crashes at its append but the last.
pub(crate) async fn deployed(
    lab: &Lab,
    (journal, uid): (&Memory, Uid),
    programs: &[(u32, Option<Crash>)],
) -> Option<Ending> {
    for (program, crash) in programs {
        let lab = lab.clone().with_program(*program);
        let process = |journal| lab.process(journal);
        let limit = Duration::from_secs(100_000);
        let run = run_until(journal, process, uid, *crash);
        let until = tokio::time::timeout(limit, run).await;
        let Ok(until) = until else {
            let (durable, _) = lab.process(journal.clone());
            let flow = durable.status(uid).await.expect("it is known").flow;
            panic!("{programs:?}: {:?}, {:?}", flow.state, flow.reason);
        };
        if let Until::Ended(ending) = until {
            return Some(ending);
        }
    }
    None
}

pub(crate) fn crashes(most: usize) -> impl Iterator<Item = Crash> {
    (1..=most).flat_map(|append| {
        [Kind::BeforeStored, Kind::AfterStored].map(|kind| Crash { append, kind })
    })
}

#[test]
fn a_step_with_another_name_is_found_again_and_keeps_its_key() {
    run(async {
        for (first, second) in crashes(6).flat_map(|one| crashes(4).map(move |two| (one, two))) {
            let lab = lab();
            let journal = lab.journal();
            let uid = lab.submit(&journal, "renamed", Options::default()).await;
            let (durable, _) = lab.process(journal.clone());
            durable.signal(uid, "paid", "in full").await.expect("the journal takes it");
            let programs = [(1, Some(first)), (2, Some(second)), (3, None)];
            let ending = deployed(&lab, (&journal, uid), &programs).await.expect("it ends");
            assert!(lab.counted("renamed-charge") >= 1, "{programs:?}");
            let packed = lab.counted("renamed-deliver/pack");
            match &ending {
                Ending::Completed(_) => {
                    assert_eq!((packed, result::<String>(&ending).as_str()), (1, "in full"));
                }
                // it is not known how `pack` ended, which runs once
                Ending::Failed(_) => assert!(packed <= 1, "{programs:?}"),
                Ending::Cancelled | _ => panic!("{ending:?}: {programs:?}"),
            }
            for other in ["debit", "take", "deliver/wrap", "hand over/wrap", "bring/send"] {
                assert_eq!(lab.counted(&format!("renamed-{other}")), 0, "{other}: {programs:?}");
            }
        }
    });
}

#[test]
fn a_name_that_was_forgotten_in_between_is_found_as_well() {
    run(async {
        for append in 1..4 {
            let lab = lab();
            let journal = lab.journal();
            let uid = lab.submit(&journal, "shorter", Options::default()).await;
            let crash = Crash { append, kind: Kind::AfterStored };
            let programs = [(5, Some(crash)), (6, None)];
            let ending = deployed(&lab, (&journal, uid), &programs).await.expect("it ends");
            assert_eq!(result::<String>(&ending), "shipped", "{crash:?}");
            let keys = ["shorter-reserve", "shorter-hold"].map(|key| lab.counted(key));
            assert_eq!(keys, [0, 1], "{crash:?}");
        }
    });
}

/// 1: all steps, and the last one fails; 2 and 3 have lost two, and 2 knows how to undo them; 4 is 3, and
/// does not fail; 5 and 6 rename the first one, 6 with the name before.
fn shorter(asi: &mut Steps<Lab, Nothing>) -> Returns<String> {
    let program = asi.cx().program;
    let ship = async move |cx: &Cx<Lab, Nothing>, ()| {
        act(cx).await?;
        if program < 4 { Err("NoShip".into()) } else { Ok("shipped".to_owned()) }
    };
    match program {
        1 => {
            asi.run("reserve", async |cx, ()| act(cx).await).recorded().undo(async |cx, _| {
                cx.count("given back");
                Ok(())
            });
            asi.run("log", async |cx, ()| act(cx).await).recorded();
        }
        2 => {
            asi.retired("log");
            asi.retired("reserve").undo(async |cx| {
                assert!(cx.key().ends_with("-shorter-reserve"), "{}", cx.key());
                cx.count("given back");
                Ok(())
            });
        }
        3 | 4 => {
            asi.retired("reserve");
            asi.retired("log");
        }
        5 => _ = asi.run("hold", async |cx, ()| act(cx).await).recorded(),
        _ => {
            let hold = asi.run("hold back", async |cx, ()| act(cx).await);
            hold.recorded().was("hold").was("reserve");
        }
    }
    asi.run("ship", ship).recorded().into()
}

#[test]
fn what_a_step_has_done_that_is_no_more_is_undone_as_the_new_program_says() {
    run(async {
        for crash in crashes(6) {
            let lab = lab();
            let journal = lab.journal();
            let uid = lab.submit(&journal, "shorter", Options::default()).await;
            let programs = [(1, Some(crash)), (2, None)];
            let ending = deployed(&lab, (&journal, uid), &programs).await.expect("it ends");
            let Ending::Failed(failure) = &ending else { panic!("{ending:?}: {crash:?}") };
            assert_eq!(failure.code, "InternalError", "{crash:?}");
            let began = lab.counted("shorter-reserve") > 0;
            assert!(!began || lab.counted("given back") >= 1, "{crash:?}");
        }
    });
}

#[test]
fn a_request_that_ends_well_needs_no_undo_of_a_step_that_is_no_more() {
    run(async {
        for crash in crashes(2) {
            let lab = lab();
            let journal = lab.journal();
            let uid = lab.submit(&journal, "shorter", Options::default()).await;
            let programs = [(1, Some(crash)), (4, None)];
            let ending = deployed(&lab, (&journal, uid), &programs).await.expect("it ends");
            assert_eq!(result::<String>(&ending), "shipped", "{crash:?}");
            assert_eq!(lab.counted("given back"), 0, "{crash:?}");
        }
    });
}

#[test]
fn a_request_that_needs_an_undo_which_is_no_more_waits_for_a_program_that_has_it() {
    run(async {
        let lab = lab();
        let journal = lab.journal();
        let uid = lab.submit(&journal, "shorter", Options::default()).await;
        let crash = Crash { append: 3, kind: Kind::AfterStored };
        assert!(deployed(&lab, (&journal, uid), &[(1, Some(crash))]).await.is_none());

        let new = lab.clone().with_program(3);
        let (durable, executor) = new.process(journal.clone());
        let node = durable.start(&executor).await.expect("the journal gives a lease");
        tokio::time::sleep(Duration::from_secs(60)).await;
        let flow = durable.status(uid).await.expect("it is known").flow;
        assert_eq!(flow.state, FlowState::Paused);
        let reason = flow.reason.unwrap_or_default();
        for part in ["test.lab:1:shorter/reserve began with an undo", "changes.rs:"] {
            assert!(reason.contains(part), "{reason}");
        }
        assert_eq!(lab.counted("given back"), 0);
        node.stop().await;

        durable.resume(uid, Resume::Continue).await.expect("it is paused");
        let ending = deployed(&lab, (&journal, uid), &[(1, None)]).await;
        assert!(matches!(ending, Some(Ending::Failed(_))), "{ending:?}");
        assert_eq!(lab.counted("given back"), 1);
    });
}

fn looping(asi: &mut Steps<Lab, Nothing>) -> Returns<i32> {
    asi.repeat("turns", 0i32, |asi, turn| {
        match asi.cx().program {
            1 => {
                asi.run("take", async |cx, ()| act(cx).await).recorded().undo(async |cx, _| {
                    cx.count("given back");
                    Ok(())
                });
            }
            _ => {
                asi.retired("take").undo(async |cx| {
                    cx.count("given back");
                    Ok(())
                });
            }
        }
        asi.run("turn", async move |cx, ()| {
            act(cx).await?;
            Ok(if turn == 3 { Next::Break(turn) } else { Next::Continue(turn + 1) })
        })
        .recorded()
        .into()
    })
    .recorded()
    .then("last", async |_, _| Err("Never".into()))
    .recorded()
    .into()
}

#[test]
fn iterations_with_a_step_that_is_no_more_are_undone_after_all() {
    run(async {
        for crash in crashes(12) {
            let lab = lab();
            let journal = lab.journal();
            let uid = lab.submit(&journal, "looping", Options::default()).await;
            let programs = [(1, Some(crash)), (2, None)];
            let ending = deployed(&lab, (&journal, uid), &programs).await.expect("it ends");
            assert!(matches!(ending, Ending::Failed(_)), "{ending:?}: {crash:?}");
            let keys = (0..4).map(|turn| format!("looping-turns#{turn}/take"));
            let taken = keys.filter(|key| lab.counted(key) > 0).count();
            let given_back = usize::try_from(lab.counted("given back")).unwrap_or(0);
            assert!(given_back >= taken, "{given_back} of {taken}: {crash:?}");
        }
    });
}

/// 2 has a step in front of the one that fails.
fn longer(asi: &mut Steps<Lab, Nothing>) -> Returns<()> {
    asi.run("take", async |cx, ()| act(cx).await).recorded().undo(async |cx, _| {
        cx.count("given back");
        soon().await;
        Ok(())
    });
    let fail = async |_: &Cx<Lab, Nothing>, ()| BodyResult::<()>::Err("NoShip".into());
    match asi.cx().program {
        1 => {}
        _ => _ = asi.run("wrap", async |cx, ()| act(cx).await).recorded(),
    }
    asi.run("ship", fail).recorded().into()
}

/// Has a program go on with a request until that ends or is paused; gives the reason for that.
async fn paused(lab: &Lab, (journal, uid): (&Memory, Uid), program: u32) -> Option<String> {
    let (durable, executor) = lab.clone().with_program(program).process(journal.clone());
    let node = durable.start(&executor).await.expect("the journal gives a lease");
    let flow = loop {
        let flow = durable.status(uid).await.expect("it is known").flow;
        if matches!(flow.state, FlowState::Ended | FlowState::Paused) {
            break flow;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    };
    node.stop().await;
    flow.reason
}

#[test]
fn a_new_step_in_front_of_a_recorded_failure_pauses_the_request() {
    run(async {
        let mut count = 0;
        for crash in crashes(6) {
            let lab = lab();
            let journal = lab.journal();
            let uid = lab.submit(&journal, "longer", Options::default()).await;
            if deployed(&lab, (&journal, uid), &[(1, Some(crash))]).await.is_some() {
                continue;
            }
            let limit = Duration::from_secs(1_000);
            let reason = tokio::time::timeout(limit, paused(&lab, (&journal, uid), 2)).await;
            if let Some(reason) = reason.unwrap_or_else(|_| panic!("{crash:?} hangs")) {
                for part in ["longer/wrap (", "changes.rs:", "in front of test.lab:1:longer/ship"] {
                    assert!(reason.contains(part), "{reason}");
                }
                assert_eq!(lab.counted("longer-wrap"), 0, "{crash:?}");
                count += 1;
                let (durable, _) = lab.process(journal.clone());
                durable.resume(uid, Resume::Continue).await.expect("it is paused");
                let ending = deployed(&lab, (&journal, uid), &[(1, None)]).await;
                assert!(matches!(ending, Some(Ending::Failed(_))), "{ending:?}");
                assert!((1..=2).contains(&lab.counted("given back")), "{crash:?}");
            }
        }
        assert!(count >= 2, "{count} were paused");
    });
}
