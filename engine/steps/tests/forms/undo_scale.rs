//! Many branches are undone without cubic cost, by no more flows than run beside each other.

use asyncsteps::{AsyncSteps, Error, Execution, Flow, Progress, Time};

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
