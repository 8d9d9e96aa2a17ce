//! A flow as a future with a typed result (FTN12 §2.2.3 `promise`).

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::async_tool::AsyncTool;
use crate::args::Arguments;
use crate::completion::Canceller;
use crate::error::Error;
use crate::flow::{Execution, Flow, Outcome, Progress};
use crate::time::Time;

impl Flow {
    /// Makes the flow a future with its typed result (FTN12 §2.2.3 `promise`).
    ///
    /// Like any future it runs when it is polled: by [`AsyncTool::spawn`], an executor, or a step of
    /// another flow through [`await_`](crate::AsyncSteps::await_). It takes the time and its timers
    /// from the loop, and spawns the flows that its steps launch there. Dropping it cancels the
    /// flow; what the flow has done is undone on the loop.
    pub fn promise<A: Arguments, T: AsyncTool>(mut self, tool: &T) -> Promise<A, T> {
        let tool = tool.clone();
        self.seal();
        let execution = Box::new(Execution::of_sealed(self));
        Promise { execution, tool, timer: None, of: PhantomData }
    }
}

/// A flow as a future, see [`Flow::promise`] (FTN12 §2.2.3 `promise`).
///
/// # Cancel safety
/// Polling may stop at any time and go on later. A poll after the end gives the `InternalError` of a
/// cancelled flow.
#[must_use = "a promise runs only while it is polled, and dropping it cancels the flow"]
pub struct Promise<A, T: AsyncTool> {
    /// Boxed, because a future is moved several times before a loop polls it.
    execution: Box<Execution>,
    tool: T,
    /// Boxed, because most flows wait without a deadline.
    timer: Option<Box<Timer<T>>>,
    of: PhantomData<fn() -> A>,
}

/// The callback that wakes the flow at its deadline.
struct Timer<T: AsyncTool> {
    at: Time,
    waker: Waker,
    handle: T::Handle,
}

impl<A, T: AsyncTool> Promise<A, T> {
    /// A handle that cancels the flow from anywhere; the promise then fails
    /// (FTN12 §2.2.3 `cancel`).
    pub fn canceller(&mut self) -> Canceller {
        self.execution.canceller()
    }

    /// Polls for the outcome itself, for hosts that tell a cancel from an error.
    pub fn poll_outcome(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        let progress = self.execution.run(self.tool.now(), cx.waker());
        if self.execution.has_side_effects() {
            self.start_launched();
        }
        match progress {
            Progress::Done(outcome) => {
                self.disarm();
                return Poll::Ready(outcome);
            }
            Progress::Ready => cx.waker().wake_by_ref(),
            Progress::Waiting => self.arm(cx.waker()),
        }
        Poll::Pending
    }

    /// Starts what the flow launched, and reports what only the host sees.
    fn start_launched(&mut self) {
        self.execution.take_unseen().into_iter().for_each(|error| self.tool.report(error));
        for flow in self.execution.take_launched() {
            let promise = flow.promise::<(), T>(&self.tool);
            self.tool.spawn(async move {
                // the outcome of a launched flow is not asked for
                let _ = promise.await;
            });
        }
    }

    /// Has the loop wake the flow at its deadline, if it has one.
    fn arm(&mut self, waker: &Waker) {
        let Some(at) = self.execution.deadline() else { return self.disarm() };
        if let Some(timer) = &self.timer
            && timer.at == at
            && self.tool.is_valid(&timer.handle)
            && timer.waker.will_wake(waker)
        {
            return;
        }
        self.disarm();
        let delay = at.saturating_since(self.tool.now());
        let wake = waker.clone();
        let handle = self.tool.deferred(delay, move || wake.wake());
        self.timer = Some(Box::new(Timer { at, waker: waker.clone(), handle }));
    }

    #[inline]
    fn disarm(&mut self) {
        if self.timer.is_some() {
            self.cancel_timer();
        }
    }

    #[inline(never)]
    fn cancel_timer(&mut self) {
        if let Some(timer) = self.timer.take() {
            self.tool.cancel(&timer.handle);
        }
    }
}

impl<A: Arguments, T: AsyncTool> Future for Promise<A, T> {
    type Output = Result<A, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_outcome(cx).map(Outcome::into_result)
    }
}

impl<A, T: AsyncTool> Drop for Promise<A, T> {
    fn drop(&mut self) {
        self.disarm();
        if self.execution.is_valid() {
            self.execution.cancel();
            self.start_launched();
        }
    }
}

/// No part of it is ever pinned.
impl<A, T: AsyncTool> Unpin for Promise<A, T> {}

impl<A, T: AsyncTool> fmt::Debug for Promise<A, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Promise").field("execution", &self.execution).finish_non_exhaustive()
    }
}
