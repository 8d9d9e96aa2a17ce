//! Your own synchronisation object: a budget of which each section takes a share.
//!
//! Every object that implements `ISync` works with `sync` (FTN12 §1.11.3). It keeps a guard on the
//! stack of the step. The end of the step drops the guard, which gives back the share or leaves the
//! queue. A section that has to wait is added after a step that waits.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use asyncsteps_core::sim::{self, Options, Sim};
use asyncsteps_core::sync::{ISync, Section};
use asyncsteps_core::{AsyncSteps, Completion, Flow, StepResult, codes};

const ALL: u32 = 100;

/// For instance, the memory for all flows together.
#[derive(Clone)]
struct Budget(Rc<RefCell<Shares>>);

struct Shares {
    free: u32,
    /// The sizes of the shares that are waited for, in the order of arrival; a new request may still
    /// be served first.
    waiting: VecDeque<(u32, Completion)>,
}

/// A share of the budget, which sections synchronise against.
#[derive(Clone)]
struct Share {
    of: Budget,
    size: u32,
}

/// The share that a step holds or waits for; dropped when the step ends.
struct Guard {
    share: Share,
    held: bool,
}

impl Budget {
    fn share(&self, size: u32) -> Share {
        Share { of: self.clone(), size }
    }

    /// Wakes the first waiters in the queue for which enough is free: they try again.
    fn wake_waiting(&self) {
        let mut shares = self.0.borrow_mut();
        let mut left = shares.free;
        while let Some((size, _)) = shares.waiting.front()
            && *size <= left
            && let Some((size, try_again)) = shares.waiting.pop_front()
        {
            // a flow that was cancelled or timed out takes nothing
            if try_again.success(()).is_ok() {
                left -= size;
            }
        }
    }
}

impl Guard {
    fn try_hold(&mut self) -> bool {
        let mut shares = self.share.of.0.borrow_mut();
        self.held = self.share.size <= shares.free;
        if self.held {
            shares.free -= self.share.size;
        }
        self.held
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.held {
            self.share.of.0.borrow_mut().free += self.share.size;
        }
        // a waiter that leaves the queue may have blocked others
        self.share.of.wake_waiting();
    }
}

impl ISync for Share {
    fn sync(&self, asi: &mut AsyncSteps, section: Section) -> StepResult {
        if self.size > ALL {
            return asi.error(codes::DEFENSE_REJECTED, "more than the whole budget");
        }
        let guard = asi.hold_named(Guard { share: self.clone(), held: false });
        if asi[guard].try_hold() {
            return section.enter(asi);
        }
        let (budget, size) = (self.of.clone(), self.size);
        asi.make_loop(move |asi| {
            if asi[guard].try_hold() {
                return asi.break_loop(None);
            }
            let try_again = asi.wait_external();
            budget.0.borrow_mut().waiting.push_back((size, try_again));
            Ok(())
        });
        section.add(asi);
        Ok(())
    }
}

/// A flow that works with a share of this size.
fn worker(sim: &Sim, budget: &Budget, size: u32) -> Flow {
    let sim = sim.clone();
    let mut flow = Flow::new();
    flow.sync(&budget.share(size), move |asi, ()| {
        asi.set_timeout(Duration::from_millis(100));
        let done = asi.wait_external();
        sim.later(Duration::from_millis(20), move || {
            let _ = done.success(()); // it may have been too late
        });
    });
    flow
}

fn main() {
    // in any order of events, with cancels and time limits, no share is lost and no flow hangs
    let options = Options { cancel_one_in: 4, ..Options::default() };
    sim::check_with(&options, 0..200, |sim| {
        let shares = Shares { free: ALL, waiting: VecDeque::new() };
        let budget = Budget(Rc::new(RefCell::new(shares)));
        for size in [10, 30, 50, 70, 100, 60, 20, 40] {
            sim.start_within(Duration::from_millis(50), worker(sim, &budget, size));
        }
        sim.run();
        assert_eq!(budget.0.borrow().free, ALL);

        let greedy = sim.start(worker(sim, &budget, ALL + 1));
        sim.run();
        let code = greedy.take_outcome().expect("it is over").into_result::<()>();
        assert!(code.is_err());
    });
}
