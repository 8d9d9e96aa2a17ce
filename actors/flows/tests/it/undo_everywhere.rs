//! Flows of branches, locks, loops, attempts and shielded steps, cut at every moment: what they have
//! charged is refunded, the newest first, and no lock is left.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use asyncsteps_actors::sync::{Limiter, Mutex};
use asyncsteps_core::sim::{self, Cut, Options, Random};
use asyncsteps_core::sync::limiter;
use asyncsteps_core::{AsyncSteps, Error, Flow, Outcome, Retry, RunContext, Undo, sleep};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// How many flows are made up.
const SEEDS: u64 = 40;

/// What a flow does.
#[derive(Debug)]
enum Node {
    Charge {
        form: Form,
        /// Its undo takes the lock that a branch beside this one may hold.
        locks_to_undo: bool,
    },
    Sequence(Vec<Rc<Self>>),
    /// The first branch holds a lock, for which the undos of the others ask.
    Branches(Vec<Rc<Self>>),
    /// It fails when it is done, and recovers.
    Recovers(Rc<Self>),
    /// Two iterations; the first one is ended while this runs beside.
    Loop(Rc<Self>),
}

#[derive(Clone, Copy, Debug)]
enum Form {
    Plain,
    Flaky,
    Shielded,
}

fn node(random: &mut Random, depth: usize) -> Node {
    let some = |random: &mut Random| {
        let count = 1 + random.below(3);
        (0..count).map(|_| Rc::new(node(random, depth - 1))).collect()
    };
    match if depth == 0 { 0 } else { random.below(6) } {
        0 | 1 => Node::Charge {
            form: [Form::Plain, Form::Flaky, Form::Shielded][random.below(3)],
            locks_to_undo: random.one_in(2),
        },
        2 => Node::Sequence(some(random)),
        3 => Node::Branches(some(random)),
        4 => Node::Recovers(Rc::new(node(random, depth - 1))),
        _ => Node::Loop(Rc::new(node(random, depth - 1))),
    }
}

/// A charge of the bank.
#[derive(Default)]
struct Charge {
    branch: Vec<u32>,
    /// When it was charged, and when its refund began and ended.
    charged: Option<u32>,
    refund: Option<(u32, u32)>,
    /// When its body ended, if that is shielded and took place.
    ended: Option<u32>,
    is_shielded: bool,
}

/// A bank that refunds by key, and refuses to charge what was refunded.
#[derive(Default)]
struct Bank {
    charges: RefCell<BTreeMap<u32, Charge>>,
    events: Cell<u32>,
    locks: RefCell<Vec<Mutex>>,
    /// A shielded body is at the desk, which has one place.
    is_at_desk: Cell<bool>,
    is_crowded: Cell<bool>,
}

impl Bank {
    fn event(&self) -> u32 {
        self.events.set(self.events.get() + 1);
        self.events.get()
    }

    fn charge(&self, key: u32) {
        let now = self.event();
        let mut charges = self.charges.borrow_mut();
        let charge = charges.get_mut(&key).expect("a key of a step");
        if charge.refund.is_none() {
            charge.charged.get_or_insert(now);
        }
    }

    /// A refund takes some time, and may wait for a lock.
    async fn refund(&self, key: u32, lock: Option<Mutex>) {
        let begin = self.event();
        let _guard = match lock {
            Some(lock) => Some(lock.lock().await.expect("no limit")),
            None => None,
        };
        sleep(ms(3)).await;
        let end = self.event();
        self.charges.borrow_mut().get_mut(&key).expect("a key").refund = Some((begin, end));
    }

    /// Whether nothing stays charged, the newer charges of a branch were refunded first, and no lock is
    /// held.
    fn check(&self, outcome: &Outcome) {
        for lock in &*self.locks.borrow() {
            assert_eq!(lock.load().holders, 0, "a lock is held at the end");
        }
        assert!(!self.is_crowded.get(), "two bodies were at the desk");
        let charges = self.charges.borrow();
        for (key, charge) in charges.iter() {
            let Some(charged) = charge.charged else { continue };
            let is_kept = matches!(outcome, Outcome::Success(_));
            assert!(is_kept || charge.refund.is_some(), "charge {key} is not refunded");
            if let Some((began, _)) = charge.refund.filter(|_| charge.is_shielded) {
                let ended = charge.ended.expect("nothing ends a shielded body");
                assert!(ended < began, "charge {key} is refunded while its body runs");
            }
            for (older, other) in charges.range(..key) {
                let (Some((began, _)), Some((_, ended))) = (other.refund, charge.refund) else {
                    continue;
                };
                let in_order = ended < began || charged > began;
                let is_one = other.branch == charge.branch && other.charged.is_some();
                assert!(in_order || !is_one, "{older} is refunded before {key}");
            }
        }
    }
}

/// Where a node is: its branch, and the lock of the first branch beside it.
#[derive(Clone)]
struct Place {
    bank: Rc<Bank>,
    branch: Vec<u32>,
    lock: Option<Mutex>,
    /// One shielded body at a time.
    desk: Limiter,
}

impl Place {
    /// The place of a branch of a new parallel step; the number is one of the whole flow.
    fn inside(&self, lock: Option<Mutex>) -> Self {
        let number = self.bank.event();
        let branch = self.branch.iter().copied().chain([number]).collect();
        Self { bank: Rc::clone(&self.bank), branch, lock, desk: self.desk.clone() }
    }
}

/// Adds what a node does.
fn add(asi: &mut AsyncSteps, node: &Rc<Node>, place: &Place) {
    let place = place.clone();
    match &**node {
        Node::Charge { form, locks_to_undo } => {
            let lock = place.lock.clone().filter(|_| *locks_to_undo);
            charge(asi, *form, lock, place);
        }
        Node::Sequence(nodes) => {
            for node in nodes {
                let (node, place) = (Rc::clone(node), place.clone());
                asi.add(move |asi, ()| add(asi, &node, &place));
            }
        }
        Node::Branches(nodes) => {
            let lock = Mutex::new(Default::default());
            place.bank.locks.borrow_mut().push(lock.clone());
            let nodes = nodes.clone();
            asi.parallel(move |branches| {
                for (number, node) in nodes.into_iter().enumerate() {
                    let place = place.inside((number > 0).then(|| lock.clone()));
                    let mut branch = branches.add(move |asi, ()| add(asi, &node, &place));
                    if number == 0 {
                        branch.locked(&lock);
                    }
                }
            });
        }
        Node::Recovers(node) => {
            let node = Rc::clone(node);
            asi.add(move |asi, ()| {
                asi.add(move |asi, ()| add(asi, &node, &place));
                asi.error_step(Error::new("Fails"));
            })
            .on_error(|asi, _| asi.success(()));
        }
        Node::Loop(node) => {
            let node = Rc::clone(node);
            asi.repeat(2, move |asi, round| {
                let (node, place) = (Rc::clone(&node), place.clone());
                if round > 0 {
                    return add(asi, &node, &place);
                }
                asi.parallel(move |branches| {
                    let beside = place.inside(None);
                    branches.add(move |asi, ()| add(asi, &node, &beside));
                    branches.add(|asi, ()| {
                        asi.sleep(ms(4));
                        asi.add(|asi, ()| asi.continue_loop(None));
                    });
                });
            });
        }
    }
}

/// Adds a step that charges, which takes 3 ms, and one that takes its result.
fn charge(asi: &mut AsyncSteps, form: Form, lock: Option<Mutex>, place: Place) {
    let Place { bank, branch, desk, .. } = place;
    let (key, is_shielded) = (bank.event(), matches!(form, Form::Shielded));
    let charge = Charge { branch, is_shielded, ..Charge::default() };
    bank.charges.borrow_mut().insert(key, charge);
    let refunds = Rc::clone(&bank);
    let mut step = asi.run_with(async move |context: RunContext, ()| {
        if matches!(form, Form::Flaky) && context.attempt == 1 {
            Err(Error::new("Flaky"))?;
        }
        bank.charge(key);
        if !is_shielded {
            sleep(ms(3)).await;
            return Ok(());
        }
        bank.is_crowded.set(bank.is_crowded.get() || bank.is_at_desk.replace(true));
        sleep(ms(3)).await;
        bank.is_at_desk.set(false);
        let ended = bank.event();
        bank.charges.borrow_mut().get_mut(&key).expect("a key").ended = Some(ended);
        Ok(())
    });
    step.undo(async move |_: Undo<&()>| {
        refunds.refund(key, lock.clone()).await;
        Ok(())
    });
    match form {
        Form::Plain => &mut step,
        Form::Flaky => step.retry(Retry::attempts(2).on_code("Flaky")),
        Form::Shielded => step.shielded().limited(&desk),
    };
}

#[test]
fn what_was_charged_is_refunded_wherever_the_flow_is_cut() {
    let fails = Cut::Error(Error::new("Cut"));
    for cut in [Cut::Cancel, Cut::Drop, Cut::Timeout, fails] {
        sim::cut_everywhere(&cut, &Options::default(), 0..SEEDS, |sim| {
            let root = Rc::new(node(&mut sim.random(), 3));
            sim.log(format_args!("{root:?}"));
            let bank = Rc::<Bank>::default();
            let limits = limiter::Options { max_queue: None, rate: u32::MAX, ..Default::default() };
            let (branch, desk) = (Vec::new(), Limiter::new(limits));
            let place = Place { bank: Rc::clone(&bank), branch, lock: None, desk };
            let mut flow = Flow::new();
            flow.add(move |asi, ()| add(asi, &root, &place));
            (flow, move |outcome| bank.check(&outcome))
        });
    }
}
