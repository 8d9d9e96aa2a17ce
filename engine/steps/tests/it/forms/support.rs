//! What the tests of forms share: a log, and a host in virtual time.

use std::time::Duration;

use asyncsteps_core::tool::{AsyncTool, Manual};
use asyncsteps_core::{Arguments, Error, Flow, Time};

pub(crate) use crate::log::{Dropped, Log};

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// An event loop whose time stands still until something is waited for.
pub(crate) fn tool() -> Manual {
    Manual::new(Time::ZERO)
}

/// The time of a loop, in milliseconds.
pub(crate) fn now(tool: &Manual) -> u128 {
    tool.now().since_epoch().as_millis()
}

/// Runs a flow to its end in virtual time; gives its result and how many milliseconds it took.
pub(crate) fn run<A: Arguments>(flow: Flow) -> (Result<A, Error>, u128) {
    let tool = tool();
    let result = tool.complete(flow.promise::<A, _>(&tool)).expect("something ends the flow");
    (result, now(&tool))
}

/// The code of the error that ends a flow, and the time of its end.
pub(crate) fn fails(flow: Flow) -> (String, u128) {
    let (result, end) = run::<()>(flow);
    (result.expect_err("it fails").code().to_owned(), end)
}

/// A future that is ready after some time of the loop.
pub(crate) async fn pause(tool: &Manual, time: Duration) {
    let mut timer = None;
    let at = tool.now() + time;
    std::future::poll_fn(|cx| {
        if tool.now() >= at {
            return std::task::Poll::Ready(());
        }
        let waker = cx.waker().clone();
        timer = Some(tool.deferred(at.saturating_since(tool.now()), move || waker.wake()));
        std::task::Poll::Pending
    })
    .await;
}
