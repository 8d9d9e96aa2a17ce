//! A throttle for flows on one event loop.

use std::cell::RefCell;
use std::rc::Rc;

use crate::codes;
use crate::completion::Completion;
use crate::error::StepResult;
use crate::flow::{AsyncSteps, Stack};
use crate::sync::mutex::{Lock, Ticket};
use crate::sync::throttle::{Options, Queue};
use crate::sync::{ISync, Section};
use crate::time::Time;

/// A throttle for flows on one event loop (FTN12 §2.4). Cloning shares it.
///
/// It needs no clock and no timer of its own: the flow that waits first waits until the period
/// ends, then lets in whose turn has come and leaves the watch to the next one.
///
/// ```
/// use asyncsteps::{Flow, run_to_end, sync::{Throttle, throttle}};
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
    /// If one of them is 0 that must not be, see [`Options::check`].
    #[must_use]
    #[track_caller]
    pub fn new(options: Options) -> Self {
        Self(Rc::new(RefCell::new(Queue::new(options))))
    }

    /// How many wait.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.0.borrow().queued()
    }

    /// Lets in whose turn has come; then the first of the others has to keep the watch.
    fn admit(&self, now: Time) {
        let mut admitted = false;
        loop {
            let next = self.0.borrow_mut().admit(now);
            let Some(next) = next else { break };
            admitted = true;
            // it finds its place gone also if something else ends its wait at the same time
            let _ = next.success(());
        }
        if admitted {
            self.wake_first();
        }
    }

    fn wake_first(&self) {
        let first = self.0.borrow().first().map(|(_, waiter)| waiter.clone());
        if let Some(first) = first {
            // not waiting just now means that it is about to look by itself
            let _ = first.success(());
        }
    }

    /// One look of a flow that has to wait: it leaves the loop once it is let in.
    fn look(&self, asi: &mut AsyncSteps, place: Stack<Place>) -> StepResult {
        let now = asi.now();
        self.admit(now);
        let mut queue = self.0.borrow_mut();
        let ticket = match asi[place].ticket {
            None => match queue.lock(now, || asi.wait_external()) {
                Lock::Entered => return asi.break_loop(None),
                Lock::Rejected => {
                    return asi.error(codes::DEFENSE_REJECTED, "Throttle queue limit");
                }
                Lock::Queued(ticket) => *asi[place].ticket.insert(ticket),
            },
            Some(ticket) => match queue.tell_mut(ticket) {
                None => {
                    asi[place].ticket = None;
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
        let place = asi.stack(Place { throttle: self.clone(), ticket: None });
        let throttle = self.clone();
        asi.make_loop(move |asi| throttle.look(asi, place));
        section.add(asi);
        Ok(())
    }
}

/// A place in the queue; it is given up when the step ends before its turn.
struct Place {
    throttle: Throttle,
    ticket: Option<Ticket>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let watched = {
            let mut queue = self.throttle.0.borrow_mut();
            let first = queue.first().is_some_and(|(first, _)| first == ticket);
            queue.withdraw(ticket) && first
        };
        if watched {
            self.throttle.wake_first();
        }
    }
}
