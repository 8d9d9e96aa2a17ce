//! Faults by the names of steps.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use super::plan::{Cut, SharedCutPlan};
use crate::completion::Canceller;
use crate::error::Error;
use crate::location::StepLocation;
use crate::probe::{ProbedWork, StepProbe, UndoMoment};

/// The faults of a simulation.
#[derive(Default)]
pub(super) struct ScriptedFaults {
    faults: RefCell<Vec<ScriptedFault>>,
    /// The names of the steps whose bodies started, with how many did.
    steps: RefCell<BTreeMap<&'static str, u32>>,
    /// Whether undos run twice, and one did.
    undo_twice: Cell<Option<bool>>,
}

struct ScriptedFault {
    step: String,
    /// Which of its bodies it strikes, from 1; `None` for all of them.
    nth: Option<u32>,
    effect: FaultEffect,
    /// How many bodies of the step started.
    bodies: u32,
    has_struck: bool,
}

pub(super) enum FaultEffect {
    Fail(Error),
    Cancel,
}

/// The results of the faults of several runs.
#[derive(Default)]
pub(super) struct FaultReport {
    /// By step and number: whether the fault struck.
    faults: BTreeMap<(String, Option<u32>), bool>,
    steps: BTreeMap<&'static str, u32>,
    /// Whether an undo ran twice, if they do.
    undo_twice: Option<bool>,
}

/// Puts the faults of a simulation into one of its flows.
pub(super) struct FlowProbe {
    pub(super) faults: Rc<ScriptedFaults>,
    pub(super) cut: Rc<SharedCutPlan>,
    pub(super) flow: usize,
    pub(super) canceller: Canceller,
}

impl ScriptedFaults {
    pub(super) fn add(&self, step: &str, nth: Option<u32>, effect: FaultEffect) {
        let fault =
            ScriptedFault { step: step.to_owned(), nth, effect, bodies: 0, has_struck: false };
        self.faults.borrow_mut().push(fault);
    }

    /// Each undo that succeeded runs a second time from now on.
    pub(super) fn undo_twice(&self) {
        self.undo_twice.set(self.undo_twice.get().or(Some(false)));
    }

    pub(super) fn have_struck(&self) -> bool {
        self.faults.borrow().iter().any(|fault| fault.has_struck)
    }

    /// The body of a step of this name starts.
    fn strike(&self, step: &'static str, canceller: &Canceller) -> Result<(), Error> {
        *self.steps.borrow_mut().entry(step).or_default() += 1;
        let mut struck = Ok(());
        for fault in self.faults.borrow_mut().iter_mut().filter(|fault| fault.step == step) {
            fault.bodies += 1;
            if fault.nth.is_some_and(|nth| nth != fault.bodies) {
                continue;
            }
            fault.has_struck = true;
            match &fault.effect {
                FaultEffect::Fail(error) => struck = Err(error.clone()),
                FaultEffect::Cancel => canceller.cancel(),
            }
        }
        struck
    }
}

impl FaultReport {
    /// Adds the faults of one run.
    pub(super) fn add(&mut self, run: &ScriptedFaults) {
        for fault in &*run.faults.borrow() {
            *self.faults.entry((fault.step.clone(), fault.nth)).or_default() |= fault.has_struck;
        }
        self.undo_twice = self.undo_twice.max(run.undo_twice.get());
        for (step, bodies) in &*run.steps.borrow() {
            let most = self.steps.entry(step).or_default();
            *most = (*most).max(*bodies);
        }
    }

    /// Checks that each fault struck in a run.
    ///
    /// If one did not. The text names the step that it should have struck.
    /// If one did not. It says what it should have struck.
    #[track_caller]
    pub(super) fn check(&self) {
        for ((step, nth), has_struck) in &self.faults {
            assert!(*has_struck, "{}", self.missed(step, *nth));
        }
        let has_undone = self.undo_twice != Some(false);
        assert!(has_undone, "the fault `undo_twice` struck in no run: no undo succeeded");
    }

    /// Why a fault struck in no run.
    fn missed(&self, step: &str, nth: Option<u32>) -> String {
        match (nth, self.steps.get(step)) {
            (Some(nth), Some(bodies)) => format!(
                "the fault of body {nth} of step `{step}` struck in no run: at most {bodies} of its \
                 bodies started"
            ),
            (_, Some(_)) => {
                format!(
                    "the fault of step `{step}` struck in no run: it was set when the step was over"
                )
            }
            (_, None) => {
                let names: Vec<_> = self.steps.keys().map(|name| format!("`{name}`")).collect();
                let names = names.join(", ");
                let names = if names.is_empty() { "none" } else { &*names };
                format!(
                    "the fault of step `{step}` struck in no run: no step of this name started; the \
                     names of those that did: {names}"
                )
            }
        }
    }
}

impl FlowProbe {
    /// The error with which the plan cuts the flow where this step starts.
    fn cut(&self, step: StepLocation) -> Option<Error> {
        let mut plan = self.cut.borrow_mut();
        let plan = plan.as_mut().filter(|plan| plan.flow == self.flow)?;
        let Cut::Error(error) = plan.cut.clone() else { return None };
        plan.pass(|| format!("where step {step} starts")).map(|_| error)
    }
}

impl StepProbe for FlowProbe {
    fn ask(&self, step: StepLocation, work: ProbedWork) -> Result<(), Error> {
        if let Some(error) = self.cut(step) {
            return Err(error);
        }
        match (work, step.name()) {
            (ProbedWork::Body, Some(name)) => self.faults.strike(name, &self.canceller),
            (ProbedWork::Body | ProbedWork::Plan, _) => Ok(()),
        }
    }

    fn undo_again(&self, step: StepLocation, moment: UndoMoment) -> bool {
        match moment {
            UndoMoment::Waits => {
                let mut plan = self.cut.borrow_mut();
                let plan = plan.as_mut().filter(|plan| plan.flow == self.flow);
                let plan = plan.filter(|plan| matches!(plan.cut, Cut::Undo));
                plan.is_some_and(|plan| {
                    plan.pass(|| format!("in the undo of step {step}")).is_some()
                })
            }
            UndoMoment::Ended => {
                let is_twice = self.faults.undo_twice.get().is_some();
                self.faults.undo_twice.set(is_twice.then_some(true));
                is_twice
            }
        }
    }
}
