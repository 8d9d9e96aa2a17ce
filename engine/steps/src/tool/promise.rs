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
    /// flow; its effects are undone on the loop.
    pub fn promise<A: Arguments, T: AsyncTool>(self, tool: &T) -> Promise<A, T> {
        Promise { driven: Box::new(Driven::new(self, tool)), of: PhantomData }
    }

    /// Executes the flow on a loop, for its effects and not for a result (FTN12 §2.2.3 `execute`); it
    /// takes an allocation less than a [promise](Self::promise) that is spawned.
    ///
    /// The first turn comes when the loop gets to it. An error that ends the flow is [reported](AsyncTool::report_end)
    /// to the loop. [Cancelling](AsyncTool::cancel) the handle cancels the flow; its effects are undone on the loop.
    ///
    /// ```
    /// use std::task::Waker;
    /// use asyncsteps_core::tool::Manual;
    /// use asyncsteps_core::{Flow, Time};
    ///
    /// let tool = Manual::new(Time::ZERO);
    /// let mut flow = Flow::new();
    /// flow.add(|asi, ()| asi.error("Late", "it is over"));
    /// flow.execute_on(&tool);
    /// tool.iterate(Time::ZERO, Waker::noop());
    /// assert_eq!(tool.take_unreported_errors()[0].code(), "Late");
    /// ```
    pub fn execute_on<T: AsyncTool>(self, tool: &T) -> T::Handle {
        tool.spawn(Executed { driven: Driven::new(self, tool), reports: true })
    }
}

/// A flow as a future, see [`Flow::promise`] (FTN12 §2.2.3 `promise`).
///
/// # Cancel safety
/// Polling may stop at any time and go on later. A poll after the end returns the `InternalError` of
/// a cancelled flow.
#[must_use = "a promise runs only while it is polled, and dropping it cancels the flow"]
pub struct Promise<A, T: AsyncTool> {
    /// Boxed, because a future is moved several times before a loop polls it.
    driven: Box<Driven<T>>,
    of: PhantomData<fn() -> A>,
}

impl<A, T: AsyncTool> Promise<A, T> {
    /// A handle that cancels the flow from anywhere; the promise then fails
    /// (FTN12 §2.2.3 `cancel`).
    pub fn canceller(&mut self) -> Canceller {
        self.driven.execution.canceller()
    }

    /// Polls for the outcome itself, for hosts that distinguish a cancel from an error.
    pub fn poll_outcome(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        self.driven.poll_outcome(cx)
    }
}

/// A flow whose result is not wanted, as a future of its loop.
struct Executed<T: AsyncTool> {
    driven: Driven<T>,
    /// Whether the loop is notified of the error that ends the flow.
    reports: bool,
}

impl<T: AsyncTool> Future for Executed<T> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { driven, reports } = &mut *self;
        driven.poll_outcome(cx).map(|outcome| match outcome {
            Outcome::Error(error) if *reports => driven.tool.report_end(error),
            Outcome::Error(_) | Outcome::Success(_) | Outcome::Cancelled => {}
        })
    }
}

/// A flow and the loop that it takes its time and its timers from.
struct Driven<T: AsyncTool> {
    execution: Execution,
    tool: T,
    /// Boxed, because most flows wait without a deadline.
    timer: Option<Box<DeadlineTimer<T>>>,
}

/// The callback that wakes the flow at its deadline.
struct DeadlineTimer<T: AsyncTool> {
    at: Time,
    waker: Waker,
    handle: T::Handle,
}

impl<T: AsyncTool> Driven<T> {
    #[inline]
    fn new(mut flow: Flow, tool: &T) -> Self {
        let tool = tool.clone();
        flow.seal();
        Self { execution: Execution::of_sealed(flow), tool, timer: None }
    }

    fn poll_outcome(&mut self, cx: &Context<'_>) -> Poll<Outcome> {
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
        self.execution
            .take_unreported_errors()
            .into_iter()
            .for_each(|error| self.tool.report(error));
        for flow in self.execution.take_launched() {
            let driven = Self::new(flow, &self.tool);
            // the outcome of a launched flow is not asked for
            self.tool.spawn(Executed { driven, reports: false });
        }
    }

    /// Makes the loop wake the flow at its deadline, if it has one.
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
        self.timer = Some(Box::new(DeadlineTimer { at, waker: waker.clone(), handle }));
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

impl<T: AsyncTool> Drop for Driven<T> {
    fn drop(&mut self) {
        self.disarm();
        if self.execution.is_valid() {
            self.execution.cancel();
            self.start_launched();
        }
    }
}

/// No part of it is ever pinned.
impl<T: AsyncTool> Unpin for Driven<T> {}

impl<A, T: AsyncTool> fmt::Debug for Promise<A, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Promise").field("execution", &self.driven.execution).finish_non_exhaustive()
    }
}
