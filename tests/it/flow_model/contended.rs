//! Flows and branches that wait for each other's locks: whatever the order, what they add up to is
//! the same, and each of them does its work in its own order.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use asyncsteps_core::sim::{Options, Sim, check_with};
use asyncsteps_core::sync::Mutex;
use asyncsteps_core::{AsyncSteps, Flow, Outcome};
use proptest::collection::vec;
use proptest::prelude::*;

/// How many mutexes there are, each with a number that it protects.
const MUTEXES: usize = 3;

const PAUSE: Duration = Duration::from_millis(4);

/// What several flows do, each in several branches.
#[derive(Clone, Debug)]
pub(crate) struct Crowd {
    flows: Vec<Vec<Vec<Work>>>,
    seed: u64,
}

#[derive(Clone, Debug)]
enum Work {
    Pause,
    /// Inside of a mutex: other work, then reading, pausing and writing the sum.
    Section {
        mutex: usize,
        adds: i64,
        fails: bool,
        inside: Vec<Self>,
    },
}

pub(crate) fn crowd() -> impl Strategy<Value = Crowd> {
    let leaf = prop_oneof![1 => Just(Work::Pause), 3 => section(Just(Vec::new()))];
    let work = leaf.prop_recursive(3, 8, 3, |inner| section(vec(inner, 0..3)));
    let flows = vec(vec(vec(work, 0..4), 1..4), 1..4);
    (flows, any::<u64>()).prop_map(|(flows, seed)| Crowd { flows, seed })
}

fn section(inside: impl Strategy<Value = Vec<Work>>) -> impl Strategy<Value = Work> {
    (0..MUTEXES, 1..100i64, any::<bool>(), inside)
        .prop_map(|(mutex, adds, fails, inside)| Work::Section { mutex, adds, fails, inside })
}

/// The sums, and what each branch of each flow added to which of them, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    sums: [i64; MUTEXES],
    branches: Vec<Vec<(usize, i64)>>,
}

/// The account as it is if everybody comes after the other.
pub(crate) fn expected(crowd: &Crowd) -> Account {
    let mut account = Account::default();
    for branch in crowd.flows.iter().flatten() {
        let mut added = Vec::new();
        add_up(branch, 0, &mut added);
        for (mutex, adds) in &added {
            account.sums[*mutex] += adds;
        }
        account.branches.push(added);
    }
    account
}

/// A section inside of another takes the same mutex or a later one: so no flows wait in a circle.
fn add_up(works: &[Work], least: usize, added: &mut Vec<(usize, i64)>) {
    for work in works {
        if let Work::Section { mutex, adds, inside, .. } = work {
            let mutex = least.max(*mutex);
            add_up(inside, mutex, added);
            added.push((mutex, *adds));
        }
    }
}

/// The account after a simulation.
pub(crate) fn simulated(crowd: &Crowd) -> Account {
    let result = RefCell::default();
    check_with(&Options::default(), [crowd.seed], |sim| {
        let shared = Shared::default();
        let branches = crowd.flows.iter().map(Vec::len).sum();
        shared.account.borrow_mut().branches = vec![Vec::new(); branches];
        let mut first = 0;
        let flows: Vec<_> = crowd
            .flows
            .iter()
            .map(|flow| {
                let started = sim.start_within(PAUSE, shared.flow(first, flow));
                first += flow.len();
                started
            })
            .collect();
        sim.run();
        for flow in flows {
            let outcome = flow.take_outcome();
            assert!(matches!(outcome, Some(Outcome::Success(_))), "{outcome:?}");
        }
        for mutex in &shared.mutexes {
            assert_eq!((mutex.holders(), mutex.queued()), (0, 0));
        }
        result.replace(shared.account.borrow().clone());
    });
    result.take()
}

#[derive(Clone, Default)]
struct Shared {
    mutexes: [Mutex; MUTEXES],
    account: Rc<RefCell<Account>>,
}

impl Shared {
    fn flow(&self, first: usize, branches: &[Vec<Work>]) -> Flow {
        let mut flow = Flow::new();
        flow.parallel(|parallel| {
            for (branch, works) in branches.iter().enumerate() {
                let (shared, works) = (self.clone(), works.clone());
                parallel.add(move |asi, ()| shared.add(asi, first + branch, 0, works));
            }
        });
        flow
    }

    fn add(&self, asi: &mut AsyncSteps, branch: usize, least: usize, works: Vec<Work>) {
        for work in works {
            let Work::Section { mutex, adds, fails, inside } = work else {
                asi.add(|asi, ()| pause(asi));
                continue;
            };
            let (shared, mutex) = (self.clone(), least.max(mutex));
            asi.sync(&self.mutexes[mutex], move |asi, ()| {
                shared.add(asi, branch, mutex, inside);
                shared.count(asi, branch, mutex, adds);
                asi.add(move |asi, ()| if fails { asi.error("Fails", ()) } else { Ok(()) });
            })
            .on_error(|asi, _| asi.success(()));
        }
    }

    /// What goes wrong if another flow is inside of the mutex too.
    fn count(&self, asi: &mut AsyncSteps, branch: usize, mutex: usize, adds: i64) {
        let (reads, writes) = (Rc::clone(&self.account), Rc::clone(&self.account));
        asi.add(move |asi, ()| {
            let sum = reads.borrow().sums[mutex];
            pause(asi);
            asi.success_step(sum);
        });
        asi.add(move |_, sum: i64| {
            let mut account = writes.borrow_mut();
            account.sums[mutex] = sum + adds;
            account.branches[branch].push((mutex, adds));
        });
    }
}

/// Waits for something outside that takes its time.
fn pause(asi: &mut AsyncSteps) {
    let sim = Sim::of(asi);
    asi.add(move |asi, ()| {
        let over = asi.wait_external();
        sim.later(PAUSE, move || over.success(()).expect("nothing cancels it"));
    });
}
