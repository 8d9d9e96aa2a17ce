//! A throttle for flows on one event loop (FTN12 §2.4).

use std::cell::RefCell;
use std::rc::Rc;

use crate::completion::Completion;
use crate::error::{StepResult, codes};
use crate::stack::{AsyncSteps, QueuedStep, Stack};
use crate::sync::mutex::{LockOutcome, Ticket};
use crate::sync::section::{ISync, Section};
use crate::sync::throttle::{Options, Queue};
use crate::time::Time;

/// A throttle for flows on one event loop (FTN12 §2.4). Cloning shares it.
///
/// It has no clock and no timer of its own: the first flow in the queue waits until the period ends.
/// It then admits the waiters that may enter, and wakes the next first one to wait for the next end.
///
/// ```
/// use asyncsteps_core::{Flow, run_to_end, sync::{Throttle, throttle}};
///
/// let throttle = Throttle::new(throttle::Options { max: 100, ..throttle::Options::default() });
/// let mut flow = Flow::new();
/// flow.add(|asi, ()| asi.success(20));
/// flow.sync(&throttle, |asi, n: i32| asi.success(n + 1));
/// assert_eq!(run_to_end::<i32>(flow).unwrap(), 21);
/// ```
#[derive(Clone, Debug)]
pub struct Throttle(Rc<RefCell<Queue<Completion>>>);

impl Throttle {
    /// A throttle with these limits.
    ///
    /// # Panics
    /// If `max` is 0 or `period` is zero, see [`Options::check`].
    #[must_use]
    #[track_caller]
    pub fn new(options: Options) -> Self {
        Self(Rc::new(RefCell::new(Queue::new(options))))
    }

    /// How many owners wait.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.0.borrow().queued()
    }

    /// Admits the waiters that may enter, then wakes the first one left: it sets the next timer.
    fn admit(&self, now: Time) {
        let mut admitted = false;
        loop {
            let next = self.0.borrow_mut().admit(now);
            let Some(next) = next else { break };
            admitted = true;
            // a waiter that something else woke finds that its ticket was admitted
            let _ = next.success(());
        }
        if admitted {
            self.wake_first();
        }
    }

    fn wake_first(&self) {
        let first = self.0.borrow().first().map(|(_, waiter)| waiter.clone());
        if let Some(first) = first {
            // a waiter that does not wait just now is about to look by itself
            let _ = first.success(());
        }
    }

    /// One iteration of a flow that has to wait: it leaves the loop once it was admitted.
    fn look(&self, asi: &mut AsyncSteps, waiting: Stack<ThrottleWait>) -> StepResult {
        let now = asi.now();
        self.admit(now);
        let mut queue = self.0.borrow_mut();
        let ticket = match asi[waiting].ticket {
            None => match queue.lock(now, || asi.wait_external()) {
                LockOutcome::Entered => return asi.break_loop(None),
                LockOutcome::Rejected => {
                    return asi.error(codes::DEFENSE_REJECTED, "Throttle queue limit");
                }
                LockOutcome::Queued(ticket) => *asi[waiting].ticket.insert(ticket),
            },
            Some(ticket) => match queue.waiter_mut(ticket) {
                None => {
                    asi[waiting].ticket = None;
                    return asi.break_loop(None);
                }
                Some(waiter) => {
                    *waiter = asi.wait_external();
                    ticket
                }
            },
        };
        if queue.first().is_some_and(|(first, _)| first == ticket)
            && let Some(end) = queue.deadline()
        {
            asi.wait_until(end);
        }
        Ok(())
    }
}

impl ISync for Throttle {
    fn sync(&self, asi: &mut AsyncSteps, section: Section) -> StepResult {
        let now = asi.now();
        self.admit(now);
        if self.0.borrow_mut().enter(now) {
            return section.enter(asi);
        }
        let waiting = asi.stack(ThrottleWait { throttle: self.clone(), ticket: None });
        let throttle = self.clone();
        let look = move |asi: &mut AsyncSteps, ()| throttle.look(asi, waiting);
        asi.queue(QueuedStep::looping_over(asi.location(), std::iter::repeat(()), look));
        section.add(asi);
        Ok(())
    }
}

/// Owns the ticket of the step, and leaves the queue if the step ends before its turn.
struct ThrottleWait {
    throttle: Throttle,
    ticket: Option<Ticket>,
}

impl Drop for ThrottleWait {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let was_first = {
            let mut queue = self.throttle.0.borrow_mut();
            let first = queue.first().is_some_and(|(first, _)| first == ticket);
            queue.withdraw(ticket) && first
        };
        if was_first {
            self.throttle.wake_first();
        }
    }
}
