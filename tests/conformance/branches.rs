//! The paths of the branches of a flow (FORMAT.md, section 6), and a check of the observer.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use asyncsteps_core::{Error, Observer, StepEnd, StepRef};

/// A branch by its number; the root is 0.
#[derive(Debug)]
pub(crate) struct Branches(BTreeMap<u32, Branch>);

#[derive(Debug)]
struct Branch {
    parent: u32,
    path: Arc<str>,
    /// The depths of the steps in progress; an iteration of a loop is a depth without a step.
    steps: Vec<u32>,
}

/// Learns from the steps of a flow which branch belongs to which, and that steps are nested.
pub(crate) struct Watch(pub(crate) Rc<RefCell<Branches>>);

impl Branches {
    pub(crate) fn new() -> Self {
        Self(BTreeMap::from([(0, Branch { parent: 0, path: "".into(), steps: Vec::new() })]))
    }

    pub(crate) fn path(&self, branch: u32) -> Arc<str> {
        Arc::clone(&self.0[&branch].path)
    }

    pub(crate) fn name(&mut self, branch: u32, name: &str) {
        let parent = self.0[&branch].parent;
        let path = format!("{}/{name}", self.0[&parent].path).into();
        self.0.entry(branch).and_modify(|branch| branch.path = path);
    }

    fn of(&mut self, step: StepRef) -> &mut Branch {
        let new = || Branch { parent: step.parent, path: "".into(), steps: Vec::new() };
        self.0.entry(step.branch).or_insert_with(new)
    }
}

impl Observer for Watch {
    fn begin(&mut self, step: StepRef) {
        let mut branches = self.0.borrow_mut();
        let branch = branches.of(step);
        assert!(branch.steps.last() < Some(&step.depth), "{step:?} begins in {branch:?}");
        branch.steps.push(step.depth);
    }

    fn enter(&mut self, step: StepRef) {
        assert_eq!(self.0.borrow_mut().of(step).steps.last(), Some(&step.depth), "{step:?}");
    }

    fn leave(&mut self, step: StepRef) {
        assert_eq!(self.0.borrow_mut().of(step).steps.last(), Some(&step.depth), "{step:?}");
    }

    fn end(&mut self, step: StepRef, _: StepEnd<'_>) {
        let mut branches = self.0.borrow_mut();
        assert_eq!(branches.of(step).steps.pop(), Some(step.depth), "{step:?} ends");
    }

    fn cancel_failed(&mut self, step: StepRef, error: &Error) {
        panic!("the cancel handler of {step:?} failed: {error}");
    }
}
