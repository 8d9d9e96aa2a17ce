//! A mutex for flows on one event loop (FTN12 §2.3).

use std::cell::RefCell;
use std::rc::Rc;

use crate::completion::Completion;
use crate::error::{StepResult, codes};
use crate::flow::Identity;
use crate::stack::AsyncSteps;
use crate::sync::mutex::{LockOutcome, Options, Queue, Ticket};
use crate::sync::section::{ISync, Section};

/// A mutex for flows on one event loop (FTN12 §2.3). Cloning shares it.
///
/// ```
/// use asyncsteps_core::{Flow, run_to_end, sync::Mutex};
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
    /// If `max` is 0, see [`Options::check`].
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

    /// How many owners wait.
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
            asi.hold(StepGuard { mutex: self.clone(), identity, claim: MutexClaim::Inside });
            return section.enter(asi);
        }
        let guard =
            asi.hold_named(StepGuard { mutex: self.clone(), identity, claim: MutexClaim::None });
        let mutex = self.clone();
        asi.add_inner(move |asi, ()| {
            let lock = mutex.0.borrow_mut().lock(identity, || asi.wait_external());
            asi[guard].claim = match lock {
                LockOutcome::Entered => MutexClaim::Inside,
                LockOutcome::Queued(ticket) => MutexClaim::Queued(ticket),
                LockOutcome::Rejected => {
                    return asi.error(codes::DEFENSE_REJECTED, "Mutex queue limit");
                }
            };
            Ok(())
        })
        .named("lock");
        section.add(asi);
        Ok(())
    }
}

/// Owns what the step has of the mutex; dropped when the step ends.
struct StepGuard {
    mutex: Mutex,
    identity: Identity,
    claim: MutexClaim,
}

enum MutexClaim {
    None,
    /// A ticket of the queue, or the lock once the ticket's turn came.
    Queued(Ticket),
    Inside,
}

impl Drop for StepGuard {
    fn drop(&mut self) {
        let mut queue = self.mutex.0.borrow_mut();
        let next = match self.claim {
            MutexClaim::None => return,
            MutexClaim::Queued(ticket) if queue.withdraw(ticket) => return,
            MutexClaim::Queued(_) | MutexClaim::Inside => queue.unlock(self.identity),
        };
        drop(queue);
        if let Some((_, completion)) = next {
            // if the next owner's step has ended, its guard is dropped soon and unlocks again
            let _ = completion.success(());
        }
    }
}
