//! Programs that change while requests are open: steps with other names, and steps that are no more.

use std::ops::ControlFlow;
use std::time::Duration;

use asyncsteps_core::{BodyResult, Undo};
use asyncsteps_durable::Options;
use asyncsteps_executor::{Cx, Returns, Steps};
use asyncsteps_journal::Uid;
use asyncsteps_journal::memory::Memory;
use asyncsteps_journal::record::Ending;
use asyncsteps_journal::request::{FlowState, Resume};

use crate::lab::{Lab, Nothing, result, soon};
use crate::node::{Crash, Kind, Until, run, run_until};

pub(crate) fn lab() -> Lab {
    type Function<R> = fn(&Steps<Lab, Nothing>, u32) -> Returns<R>;
    fn of<R: 'static>(
        program: u32,
        function: Function<R>,
    ) -> impl Fn(&Steps<Lab, Nothing>) -> Returns<R> {
        move |steps| function(steps, program)
    }
    Lab::with_programs(|program, durable, functions| {
        durable.on(functions, "renamed", of(program, renamed));
        durable.on(functions, "shorter", of(program, shorter));
        durable.on(functions, "looping", of(program, looping));
    })
}

/// An effect that is known by its key.
async fn act<T>(cx: &Cx<Lab, Nothing>, value: T) -> BodyResult<T> {
    let (_, key) = cx.key().split_once('-').expect("the id is in front");
    cx.count(key);
    soon().await;
    Ok(value)
}

/// Its undo.
async fn gives_back(cx: &Cx<Lab, Nothing>, _: Undo<&()>) -> BodyResult<()> {
    cx.count("given back");
    soon().await;
    Ok(())
}

fn renamed(steps: &Steps<Lab, Nothing>, program: u32) -> Returns<String> {
    let pack = |steps: &Steps<_, _>| {
        let pack = steps.run("pack", act).once();
        pack.then("send", act).recorded().returns()
    };
    let wrap = |steps: &Steps<_, _>| {
        let wrap = steps.run("wrap", act).once().was("pack");
        wrap.then("send", act).recorded().returns()
    };
    match program {
        1 => {
            let charge = steps.run("charge", act).recorded();
            charge.then_nested("deliver", pack).then_wait_signal("paid").returns()
        }
        2 => {
            let debit = steps.run("debit", act).was("charge").recorded();
            let hand_over = debit.then_nested("hand over", wrap).was("deliver");
            hand_over.then_wait_signal("money").was("paid").returns()
        }
        _ => {
            let take = steps.run("take", act).was("debit").was("charge").recorded();
            let bring = take.then_nested("bring", wrap).was("hand over").was("deliver");
            let paid = bring.then_wait_signal("money").was("paid");
            paid.then("check", act).recorded().returns()
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
fn shorter(steps: &Steps<Lab, Nothing>, program: u32) -> Returns<String> {
    let begin = match program {
        1 => {
            let reserve = steps.run("reserve", act).recorded().undo(gives_back);
            reserve.then("log", act).recorded().erased()
        }
        2 => {
            steps.retired("log");
            steps.retired("reserve").undo(async |cx| {
                assert!(cx.key().ends_with("-shorter-reserve"), "{}", cx.key());
                cx.count("given back");
                Ok(())
            });
            steps.pass().erased()
        }
        3 | 4 => {
            steps.retired("reserve");
            steps.retired("log");
            steps.pass().erased()
        }
        5 => steps.run("hold", act).recorded().erased(),
        _ => steps.run("hold back", act).recorded().was("hold").was("reserve").erased(),
    };
    begin
        .then("ship", async |cx, ()| {
            act(cx, ()).await?;
            if cx.program < 4 { Err("NoShip".into()) } else { Ok("shipped".to_owned()) }
        })
        .recorded()
        .returns()
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
        for part in
            ["test.lab:1:shorter/reserve cannot be undone", "without an undo", "changes.rs:"]
        {
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

fn looping(steps: &Steps<Lab, Nothing>, program: u32) -> Returns<i32> {
    steps
        .run("begin", async |_, ()| Ok(0))
        .repeatable()
        .then_repeat("turns", |steps| turn(steps, program))
        .recorded_with_input()
        .then("last", async |_, _| Err("Never".into()))
        .recorded()
        .returns()
}

fn turn(steps: &Steps<Lab, Nothing, i32>, program: u32) -> Returns<ControlFlow<i32, i32>> {
    let begin = if program == 1 {
        let undo = async |cx: &Cx<Lab, Nothing>, _: Undo<&i32>| gives_back(cx, Undo::Unknown).await;
        steps.run("take", act).recorded().undo(undo).erased()
    } else {
        steps.retired("take").undo(async |cx| gives_back(cx, Undo::Unknown).await);
        steps.pass().erased()
    };
    begin
        .then("turn", act)
        .recorded()
        .then("next", async |_, turn| {
            Ok(if turn == 3 { ControlFlow::Break(turn) } else { ControlFlow::Continue(turn + 1) })
        })
        .repeatable()
        .returns()
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
