//! Synchronisation objects for flows on one event loop.

mod limiter;
mod throttle;

use std::cell::RefCell;
use std::rc::Rc;

use super::mutex::{Lock, Options, Queue, Ticket};
use super::{ISync, Section};
use crate::codes;
use crate::completion::Completion;
use crate::error::StepResult;
use crate::flow::{AsyncSteps, Identity};

pub use limiter::Limiter;
pub use throttle::Throttle;

/// A mutex for flows on one event loop (FTN12 §2.3). Cloning shares it.
///
/// ```
/// use asyncsteps::{Flow, run_to_end, sync::Mutex};
///
/// let mutex = Mutex::default();
/// let mut flow = Flow::new();
/// flow.add(|asi, ()| asi.success(20));
/// flow.sync(&mutex, |asi, n: i32| asi.success(n + 1));
/// assert_eq!(run_to_end::<i32>(flow).unwrap(), 21);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Mutex(Rc<RefCell<Queue<Completion>>>);

impl Default for Queue<Completion> {
    fn default() -> Self {
        Self::new(Options::default())
    }
}

impl Mutex {
    /// A mutex with these limits.
    ///
    /// # Panics
    /// If one of them is 0 that must not be, see [`Options::check`].
    #[must_use]
    #[track_caller]
    pub fn new(options: Options) -> Self {
        Self(Rc::new(RefCell::new(Queue::new(options))))
    }

    /// How many owners are inside.
    #[must_use]
    pub fn holders(&self) -> usize {
        self.0.borrow().holders()
    }

    /// How many wait.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.0.borrow().queued()
    }
}

impl ISync for Mutex {
    fn sync(&self, asi: &mut AsyncSteps, section: Section) -> StepResult {
        let identity = asi.identity();
        let entered = self.0.borrow_mut().enter(identity);
        if entered {
            asi.hold(Guard { mutex: self.clone(), identity, held: Held::Inside });
            return section.enter(asi);
        }
        let guard = asi.stack(Guard { mutex: self.clone(), identity, held: Held::Nothing });
        let mutex = self.clone();
        asi.add(move |asi, ()| {
            let lock = mutex.0.borrow_mut().lock(identity, || asi.wait_external());
            asi[guard].held = match lock {
                Lock::Entered => Held::Inside,
                Lock::Queued(ticket) => Held::Place(ticket),
                Lock::Rejected => return asi.error(codes::DEFENSE_REJECTED, "Mutex queue limit"),
            };
            Ok(())
        });
        section.add(asi);
        Ok(())
    }
}

/// Holds the lock, or a place in the queue, until the step is over.
struct Guard {
    mutex: Mutex,
    identity: Identity,
    held: Held,
}

enum Held {
    Nothing,
    /// A place in the queue, or the lock once the place came to its turn.
    Place(Ticket),
    Inside,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut queue = self.mutex.0.borrow_mut();
        let next = match self.held {
            Held::Nothing => return,
            Held::Place(ticket) if queue.withdraw(ticket) => return,
            Held::Place(_) | Held::Inside => queue.unlock(self.identity),
        };
        drop(queue);
        if let Some((_, completion)) = next {
            // if its step is over, its guard is about to be dropped and passes the turn on
            let _ = completion.success(());
        }
    }
}
