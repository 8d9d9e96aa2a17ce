//! Roots that wait, driven by hand and on a loop of the engine: the workloads of other engines.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::hint::black_box;
use std::rc::Rc;
use std::task::Waker;

use asyncsteps_core::tool::{AsyncTool, Manual};
use asyncsteps_core::{AsyncSteps, Completion, Execution, Flow, Progress, Time};
use tokio::sync::oneshot;

/// How many roots loop at the same time.
const LOOPERS: u32 = 1_000;

/// The completions of the steps that wait, in the order of their waiting.
type Waiting = Rc<RefCell<VecDeque<Completion>>>;

/// A step that waits for a number, and one that takes it.
fn add_pair(asi: &mut AsyncSteps, waiting: &Waiting) {
    let waiting = Rc::clone(waiting);
    asi.add(move |asi, ()| waiting.borrow_mut().push_back(asi.wait_external()));
    asi.add(|_, n: i32| {
        black_box(n);
    });
}

fn pair(waiting: &Waiting) -> Flow {
    let mut flow = Flow::new();
    add_pair(flow.steps(), waiting);
    flow
}

/// A root with an endless loop of pairs.
fn looper(waiting: &Waiting) -> Flow {
    let waiting = Rc::clone(waiting);
    let mut flow = Flow::new();
    flow.steps().make_loop(move |asi| add_pair(asi, &waiting));
    flow
}

fn start(flow: Flow) -> Execution {
    let mut execution = flow.execute();
    assert!(matches!(execution.run(Time::ZERO, Waker::noop()), Progress::Waiting));
    execution
}

fn complete(waiting: &Waiting) {
    let next = waiting.borrow_mut().pop_front().expect("a step waits");
    next.success(1).expect("it still waits");
}

/// Roots that wait; all are completed, then all run to their end.
pub(crate) fn roots_by_hand(roots: u32) {
    let waiting = Waiting::default();
    let executions: Vec<Execution> = (0..roots).map(|_| start(pair(&waiting))).collect();
    (0..roots).for_each(|_| complete(&waiting));
    for mut execution in executions {
        assert!(matches!(execution.run(Time::ZERO, Waker::noop()), Progress::Done(_)));
    }
}

/// Endless loops whose waits are completed one after the other.
pub(crate) fn loops_by_hand(iterations: u32) {
    let waiting = Waiting::default();
    let mut executions: Vec<Execution> = (0..LOOPERS).map(|_| start(looper(&waiting))).collect();
    for _ in 0..iterations / LOOPERS {
        for execution in &mut executions {
            complete(&waiting);
            assert!(matches!(execution.run(Time::ZERO, Waker::noop()), Progress::Waiting));
        }
    }
}

/// Runs the loop until nothing is left to do at this time.
fn settle(tool: &Manual) {
    while tool.iterate(Time::ZERO, Waker::noop()).is_some() {}
}

fn simple() -> Flow {
    let mut flow = Flow::new();
    flow.add(|_, ()| {});
    flow
}

/// One root after the other, each with an empty step.
pub(crate) fn simple_on_manual(roots: u32) {
    let tool = Manual::new(Time::ZERO);
    for _ in 0..roots {
        simple().execute_on(&tool);
        settle(&tool);
    }
    assert!(tool.is_empty());
}

/// The same as promises of futures that look at their results.
pub(crate) fn promises_on_manual(roots: u32) {
    let (tool, ended) = (Manual::new(Time::ZERO), Rc::new(Cell::new(0)));
    for _ in 0..roots {
        let (promise, ended) = (simple().promise::<(), Manual>(&tool), Rc::clone(&ended));
        tool.spawn(async move {
            black_box(promise.await.is_ok());
            ended.set(ended.get() + 1);
        });
        settle(&tool);
    }
    assert_eq!(ended.get(), roots);
}

/// Roots that wait; all are completed, then the loop runs them to their end.
pub(crate) fn roots_on_manual(roots: u32) {
    let (tool, waiting) = (Manual::new(Time::ZERO), Waiting::default());
    (0..roots).for_each(|_| drop(pair(&waiting).execute_on(&tool)));
    settle(&tool);
    (0..roots).for_each(|_| complete(&waiting));
    settle(&tool);
    assert!(tool.is_empty());
}

/// The same as tasks of a step each, written by hand: nothing can be added, cancelled, limited or looked at.
pub(crate) fn tasks_on_manual(roots: u32) {
    let (tool, mut waiting) = (Manual::new(Time::ZERO), VecDeque::new());
    for _ in 0..roots {
        let (complete, completed) = oneshot::channel::<i32>();
        waiting.push_back(complete);
        tool.spawn(async move {
            black_box(completed.await.is_ok());
        });
    }
    settle(&tool);
    for complete in waiting {
        complete.send(1).expect("it waits");
    }
    settle(&tool);
    assert!(tool.is_empty());
}

/// The same in endless loops.
pub(crate) fn task_loops_on_manual(iterations: u32) {
    type Completions = Rc<RefCell<VecDeque<oneshot::Sender<i32>>>>;
    let (tool, waiting) = (Manual::new(Time::ZERO), Completions::default());
    for _ in 0..LOOPERS {
        let waiting = Rc::clone(&waiting);
        tool.spawn(async move {
            loop {
                let (complete, completed) = oneshot::channel();
                waiting.borrow_mut().push_back(complete);
                black_box(completed.await.is_ok());
            }
        });
    }
    settle(&tool);
    for _ in 0..iterations / LOOPERS {
        for _ in 0..LOOPERS {
            let complete = waiting.borrow_mut().pop_front().expect("a task waits");
            complete.send(1).expect("it still waits");
        }
        settle(&tool);
    }
    assert_eq!(waiting.borrow().len(), LOOPERS as usize);
    tool.clear();
}

/// Endless loops; a driver completes all that wait, and lets the loop run.
pub(crate) fn loops_on_manual(iterations: u32) {
    let (tool, waiting) = (Manual::new(Time::ZERO), Waiting::default());
    (0..LOOPERS).for_each(|_| drop(looper(&waiting).execute_on(&tool)));
    settle(&tool);
    for _ in 0..iterations / LOOPERS {
        (0..LOOPERS).for_each(|_| complete(&waiting));
        settle(&tool);
    }
    assert_eq!(waiting.borrow().len(), LOOPERS as usize);
    tool.clear();
}
