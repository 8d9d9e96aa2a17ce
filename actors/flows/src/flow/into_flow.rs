//! Types that can be started as a flow.

use std::time::Duration;

use asyncsteps_core::{Arguments, Flow, Template};

/// A type that can be started as a flow: a [`Flow`], a [`Template`], a template with the arguments
/// of its first step, or a function that makes a flow on the arbiter that runs it.
///
/// ```
/// use asyncsteps_core::Template;
/// use asyncsteps_actors::flow::start_flow;
///
/// # actix::System::new().block_on(async {
/// let double = Template::build(|asi| {
///     asi.add(|asi, n: i32| asi.success(n * 2));
/// });
/// assert_eq!(start_flow::<i32>((&double, 21)).await.unwrap(), 42);
/// # });
/// ```
pub trait IntoFlow: Sized {
    /// The flow, ready to be executed.
    fn into_flow(self) -> Flow;

    /// How long the flow may take, if it is limited.
    fn limit(&self) -> Option<Duration> {
        None
    }

    /// The same with a deadline: when `limit` has passed since its start or its submission, the flow is
    /// cancelled and ends with Timeout. A deadline that it inherits still counts.
    fn within(self, limit: Duration) -> WithDeadline<Self> {
        WithDeadline { flow: self, limit }
    }
}

/// A flow to be started with a deadline, made by [`IntoFlow::within`].
#[derive(Clone, Copy, Debug)]
#[must_use = "it does nothing before it is started"]
pub struct WithDeadline<T> {
    flow: T,
    limit: Duration,
}

impl<T: IntoFlow> IntoFlow for WithDeadline<T> {
    fn into_flow(self) -> Flow {
        self.flow.into_flow()
    }

    fn limit(&self) -> Option<Duration> {
        Some(self.flow.limit().map_or(self.limit, |limit| limit.min(self.limit)))
    }
}

impl IntoFlow for Flow {
    fn into_flow(self) -> Flow {
        self
    }
}

impl IntoFlow for Template {
    fn into_flow(self) -> Flow {
        self.flow()
    }
}

impl IntoFlow for &Template {
    fn into_flow(self) -> Flow {
        self.flow()
    }
}

impl<A: Arguments> IntoFlow for (Template, A) {
    fn into_flow(self) -> Flow {
        (&self.0, self.1).into_flow()
    }
}

impl<A: Arguments> IntoFlow for (&Template, A) {
    fn into_flow(self) -> Flow {
        let mut flow = self.0.flow();
        flow.pass(self.1);
        flow
    }
}

impl<F: FnOnce() -> Flow> IntoFlow for F {
    fn into_flow(self) -> Flow {
        self()
    }
}
