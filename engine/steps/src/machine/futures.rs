//! Futures that steps poll (FTN12 §1.13).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll};

use super::report::Event;
use super::types::{Machine, Next};
use crate::error::Fault;
use crate::stack::Activity;

impl Machine {
    /// Polls the future of the step on top; its output ends the step.
    pub(super) fn poll_future(&mut self) -> Next {
        let activity = self.asi.strand.top.replace_activity(Activity::Plain);
        let Activity::Polling(mut polled) = activity else {
            self.asi.set_activity(activity);
            return Next::Wait;
        };
        self.report(Event::Enter);
        let result = catch_unwind(AssertUnwindSafe(|| {
            polled.future.as_mut().poll(&mut Context::from_waker(&polled.waker))
        }));
        self.report(Event::Leave);
        match result {
            Ok(Poll::Pending) => {
                self.asi.set_activity(Activity::Polling(polled));
                Next::Wait
            }
            Ok(Poll::Ready(Ok(args))) => {
                drop(polled);
                self.complete_waiting(args)
            }
            Ok(Poll::Ready(Err(error))) => {
                drop(polled);
                self.unwind(Fault::Error(error.at(self.asi.location())))
            }
            Err(payload) => {
                let error = self.panicked(payload);
                drop(polled);
                self.unwind(Fault::Error(error))
            }
        }
    }
}
