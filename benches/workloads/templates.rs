//! Async steps that pass a text on, of templates and added to flows: what policies add to them, and what a
//! wait costs.

use std::future::{poll_fn, ready};
use std::hint::black_box;
use std::mem;
use std::task::{Poll, Waker};
use std::time::Duration;

use asyncsteps_core::{Flow, Progress, Retry, Template, Time};

/// Steps of one flow.
pub(crate) const STEPS: u32 = 10;

const LIMIT: Duration = Duration::from_secs(1);

/// What a step has beside its body.
#[derive(Clone, Copy, Default)]
pub(crate) struct Policies {
    pub(crate) timeout: bool,
    pub(crate) retry: bool,
    pub(crate) undo: bool,
}

pub(crate) const NONE: Policies = Policies { timeout: false, retry: false, undo: false };
pub(crate) const ALL: Policies = Policies { timeout: true, retry: true, undo: true };

/// Adds a step of this body, to a flow or to a template.
macro_rules! add {
    ($steps:expr, $policies:expr, $body:expr) => {{
        let (mut step, policies): (_, Policies) = ($steps.run($body), $policies);
        if policies.timeout {
            step.timeout(LIMIT);
        }
        if policies.retry {
            step.retry(Retry::attempts(3));
        }
        if policies.undo {
            step.undo(async |_| Ok(()));
        }
    }};
}

async fn at_once(text: String) -> String {
    ready(black_box(text)).await
}

async fn later(text: String) -> String {
    let mut was_polled = false;
    poll_fn(|_| match mem::replace(&mut was_polled, true) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
    at_once(text).await
}

/// Flows of a template of ten async steps.
pub(crate) fn in_template(flows: u32, policies: Policies) {
    let template = Template::build(|asi| {
        for _ in 0..STEPS {
            add!(asi, policies, async |text: String| Ok(at_once(text).await));
        }
    });
    run(flows, || template.flow());
}

/// Flows to each of which ten async steps are added.
pub(crate) fn in_flow(flows: u32, policies: Policies) {
    run(flows, || {
        let mut flow = Flow::new();
        for _ in 0..STEPS {
            add!(flow, policies, async |text: String| Ok(at_once(text).await));
        }
        flow
    });
}

/// Flows of a template of a step that waits once.
pub(crate) fn waits_in_template(flows: u32, policies: Policies) {
    let template = Template::build(|asi| {
        add!(asi, policies, async |text: String| Ok(later(text).await));
    });
    run(flows, || template.flow());
}

/// Flows to each of which a step that waits once is added.
pub(crate) fn waits_in_flow(flows: u32) {
    run(flows, || {
        let mut flow = Flow::new();
        add!(flow, NONE, async |text: String| Ok(later(text).await));
        flow
    });
}

fn run(flows: u32, flow: impl Fn() -> Flow) {
    for _ in 0..flows {
        let mut flow = flow();
        flow.pass(String::from("a text"));
        let mut execution = flow.execute();
        while !matches!(execution.run(Time::ZERO, Waker::noop()), Progress::Done(_)) {}
    }
}
