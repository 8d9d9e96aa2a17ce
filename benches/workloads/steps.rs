//! Flows driven by hand: what `step_cost` measures in time and `instructions` counts.

use std::hint::black_box;
use std::task::Waker;

use asyncsteps_core::sync::Mutex;
use asyncsteps_core::{Flow, Progress, Template, Time};

/// Iterations of a loop.
const ITERATIONS: u32 = 1_000;

/// A workload, and how many iterations one run has.
pub(crate) struct Workload {
    pub(crate) id: &'static str,
    pub(crate) run: fn(&Fixture),
    pub(crate) per: u32,
}

/// What workloads share, so that making it is not measured.
pub(crate) struct Fixture {
    ten: Template,
    mutex: Mutex,
}

pub(crate) const WORKLOADS: [Workload; 8] = [
    Workload { id: "simple", run: simple, per: 1 },
    Workload { id: "ten steps", run: ten, per: 1 },
    Workload { id: "template of ten", run: template, per: 1 },
    Workload { id: "nested adds", run: nested, per: 1 },
    Workload { id: "error, recovered", run: error, per: 1 },
    Workload { id: "parallel of three", run: parallel, per: 1 },
    Workload { id: "repeat, per iteration", run: repeat, per: ITERATIONS },
    Workload { id: "sync, free mutex", run: sync, per: 1 },
];

impl Fixture {
    pub(crate) fn new() -> Self {
        Self { ten: template_of_ten(), mutex: Mutex::default() }
    }
}

/// Runs a flow that never waits.
fn finish(flow: Flow) {
    let mut execution = flow.execute();
    while !matches!(execution.run(Time::ZERO, Waker::noop()), Progress::Done(_)) {}
}

fn simple(_: &Fixture) {
    let mut flow = Flow::new();
    flow.add(|_, ()| {});
    finish(flow);
}

fn ten(_: &Fixture) {
    let mut flow = Flow::new();
    for _ in 0..10 {
        flow.add(|_, ()| {});
    }
    finish(flow);
}

fn template_of_ten() -> Template {
    Template::build(|asi| {
        for _ in 0..10 {
            asi.add(|_, ()| {});
        }
    })
}

fn template(fixture: &Fixture) {
    finish(fixture.ten.flow());
}

fn nested(_: &Fixture) {
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        asi.add(|asi, ()| {
            asi.add(|_, ()| {});
        });
    });
    finish(flow);
}

fn error(_: &Fixture) {
    let mut flow = Flow::new();
    flow.add(|asi, ()| asi.error("Failed", "on purpose")).on_error(|asi, error| {
        match error.code() {
            "Failed" => asi.success(()),
            _ => Ok(()),
        }
    });
    finish(flow);
}

fn parallel(_: &Fixture) {
    let mut flow = Flow::new();
    flow.parallel(|p| {
        p.add(|_, ()| {});
        p.add(|_, ()| {});
        p.add(|_, ()| {});
    });
    flow.add(|_, ()| {});
    finish(flow);
}

fn repeat(_: &Fixture) {
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        let mut sum = 0;
        asi.repeat(ITERATIONS as usize, move |_, i| {
            sum = black_box(sum + i);
        });
    });
    finish(flow);
}

fn sync(fixture: &Fixture) {
    let mut flow = Flow::new();
    flow.sync(&fixture.mutex, |_, ()| {});
    finish(flow);
}
