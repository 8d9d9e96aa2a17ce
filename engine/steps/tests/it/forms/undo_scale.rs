//! Many branches are undone without cubic cost, by no more flows than run beside each other.

use std::time::Duration;

use asyncsteps_core::{AsyncSteps, Error, Execution, Flow, Progress, Time};

/// Adds a step that can be undone.
fn book(asi: &mut AsyncSteps) {
    asi.run(async |()| Ok(())).undo(async |_| Ok(()));
}

/// Runs a flow that fails, and its undos, to the end; gives how many flows these were and how many steps
/// they have undone.
fn undo(mut flow: Flow) -> (usize, usize) {
    flow.error_step(Error::new("Fails"));
    let waker = std::task::Waker::noop();
    let mut execution = flow.execute();
    while let Progress::Ready = execution.run(Time::ZERO, waker) {}
    let mut undos: Vec<Execution> =
        execution.take_launched().into_iter().map(Flow::execute).collect();
    let (flows, mut undone) = (undos.len(), 0);
    while !undos.is_empty() {
        undos.retain_mut(|undo| {
            let progress = undo.run(Time::ZERO, waker);
            undone += undo.take_undone().len();
            !matches!(progress, Progress::Done(_))
        });
    }
    let end = execution.run(Time::ZERO, waker);
    assert!(matches!(end, Progress::Done(_)), "it waits for its undos only");
    (flows, undone)
}

#[test]
fn many_branches_are_undone_beside_each_other() {
    let mut flow = Flow::new();
    flow.parallel(|p| {
        for _ in 0..1_000 {
            p.add(|asi, ()| (0..3).for_each(|_| book(asi)));
        }
    });
    assert_eq!(undo(flow), (1_000, 3_000));
}

#[test]
fn many_parallel_steps_are_undone_by_as_many_flows_as_one_has_branches() {
    let mut flow = Flow::new();
    flow.steps().repeat(1_000, |asi, _| {
        asi.parallel(|p| {
            for _ in 0..3 {
                p.add(|asi, ()| book(asi));
            }
        });
    });
    assert_eq!(undo(flow), (3, 3_000));
}

/// A flow whose parts of two branches each are undone with a step between, and fails.
fn two_parts() -> Flow {
    let mut flow = Flow::new();
    let both = |asi: &mut AsyncSteps| {
        asi.parallel(|p| {
            p.add(|asi, ()| book(asi));
            p.add(|asi, ()| {
                asi.run(async |()| Ok(())).undo(async |_| {
                    asyncsteps_core::sleep(Duration::from_millis(5)).await;
                    Ok(())
                });
            });
        });
    };
    both(flow.steps());
    book(flow.steps());
    both(flow.steps());
    flow.error_step(Error::new("Fails"));
    flow
}

#[test]
fn undos_go_on_when_one_of_their_flows_is_cancelled() {
    for victim in 0..2 {
        for round in 0..24 {
            let waker = std::task::Waker::noop();
            let mut execution = two_parts().execute();
            while let Progress::Ready = execution.run(Time::ZERO, waker) {}
            let mut undos: Vec<Execution> =
                execution.take_launched().into_iter().map(Flow::execute).collect();
            let mut told = 0;
            for turn in 0..40u64 {
                let now = Time::from_epoch(Duration::from_millis(turn));
                for (number, undo) in undos.iter_mut().enumerate() {
                    if turn == round / 2 && number == victim && round % 2 == 0 {
                        undo.cancel();
                    }
                    let _ = undo.run(now, waker);
                    if turn == round / 2 && number == victim && round % 2 == 1 {
                        undo.cancel();
                    }
                    told += undo.take_undone().len() + undo.take_unreported_errors().len();
                }
            }
            assert!(undos.iter().all(|undo| !undo.is_valid()), "{victim} {round}");
            assert_eq!(told, 5, "each step was undone or reported: {victim} {round}");
            let end = execution.run(Time::from_epoch(Duration::from_millis(40)), waker);
            assert!(matches!(end, Progress::Done(_)), "{victim} {round}");
        }
    }
}
