//! Faults by the names of steps.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::completion::Canceller;
use crate::error::Error;
use crate::location::StepLocation;
use crate::probe::{Probe, ProbedWork};

/// The faults of a simulation.
#[derive(Default)]
pub(super) struct Faults(RefCell<Vec<Fault>>);

struct Fault {
    step: String,
    /// Which of its bodies it strikes, from 1; `None` for all of them.
    nth: Option<u32>,
    effect: Effect,
    /// How many bodies of the step started.
    bodies: u32,
    has_struck: bool,
}

pub(super) enum Effect {
    Fail(Error),
    Cancel,
}

/// Puts the faults of a simulation into one of its flows.
pub(super) struct FlowProbe {
    faults: Rc<Faults>,
    canceller: Canceller,
    next: Rc<NextFault>,
}

/// The error of the next step of a flow, whatever its name.
#[derive(Default)]
pub(super) struct NextFault(Cell<Option<Error>>);

impl Faults {
    pub(super) fn add(&self, step: &str, nth: Option<u32>, effect: Effect) {
        let fault = Fault { step: step.to_owned(), nth, effect, bodies: 0, has_struck: false };
        self.0.borrow_mut().push(fault);
    }

    /// Adds to `steps` which faults have struck, by their steps.
    pub(super) fn note(&self, steps: &mut BTreeMap<String, bool>) {
        for fault in &*self.0.borrow() {
            *steps.entry(fault.step.clone()).or_default() |= fault.has_struck;
        }
    }

    /// The body of a step of this name starts.
    fn strike(&self, step: &str, canceller: &Canceller) -> Result<(), Error> {
        let mut struck = Ok(());
        for fault in self.0.borrow_mut().iter_mut().filter(|fault| fault.step == step) {
            fault.bodies += 1;
            if fault.nth.is_some_and(|nth| nth != fault.bodies) {
                continue;
            }
            fault.has_struck = true;
            match &fault.effect {
                Effect::Fail(error) => struck = Err(error.clone()),
                Effect::Cancel => canceller.cancel(),
            }
        }
        struck
    }
}

impl NextFault {
    pub(super) fn set(&self, error: Error) {
        self.0.set(Some(error));
    }
}

impl FlowProbe {
    pub(super) fn new(faults: &Rc<Faults>, canceller: Canceller, next: &Rc<NextFault>) -> Self {
        Self { faults: Rc::clone(faults), canceller, next: Rc::clone(next) }
    }
}

impl Probe for FlowProbe {
    fn ask(&self, step: StepLocation, work: ProbedWork) -> Result<(), Error> {
        if let Some(error) = self.next.0.take() {
            return Err(error);
        }
        match (work, step.name()) {
            (ProbedWork::Body, Some(name)) => self.faults.strike(name, &self.canceller),
            (ProbedWork::Body | ProbedWork::Plan, _) => Ok(()),
        }
    }
}
