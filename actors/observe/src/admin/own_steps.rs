//! The steps that the functions of an executor have in their plans, among those of its requests: the others are the
//! library's own.

use std::collections::HashMap;
use std::sync::Arc;

use asyncsteps_executor::plan::{Plan, PlanStep};

use super::place::StepPlace;
use super::types::{Awaited, FlowInFlight, WaitInfo};

/// The planned steps of each function that has a plan.
pub(super) struct OwnSteps<'a>(HashMap<&'a str, OwnFunction<'a>>);

/// The steps of a function by name and place.
#[derive(Default)]
struct OwnFunction<'a> {
    steps: HashMap<(&'a str, &'a str), &'a PlanStep>,
    is_durable: bool,
}

impl<'a> OwnSteps<'a> {
    pub(super) fn of(plans: &'a [Arc<Plan>]) -> Self {
        let plans = plans.iter().filter(|plan| !plan.steps.is_empty());
        let function = |plan: &'a Plan| {
            let mut function = OwnFunction::default();
            function.add(&plan.steps);
            (plan.function.as_str(), function)
        };
        Self(plans.map(|plan| function(plan)).collect())
    }

    /// Leaves of a request what its function has, and says what that awaits.
    pub(super) fn show(&self, flow: &mut FlowInFlight, is_caller: bool) {
        let Some(function) = self.0.get(flow.function.as_str()) else { return };
        let all = flow.waits.len();
        let (mut shown, others): (Vec<_>, Vec<_>) =
            flow.waits.drain(..).partition(|wait| function.has_any(wait));
        shown.iter_mut().for_each(|wait| function.show(wait));
        if shown.is_empty()
            && let Some(mut wait) = others.into_iter().next()
        {
            wait.steps.clear();
            // the request begins or ends, as far as its steps go
            wait.awaits = match (is_caller, function.is_durable) {
                (true, _) => Some(Awaited::Durable),
                (false, true) => Some(Awaited::Journal),
                (false, false) => None,
            };
            shown.push(wait);
        }
        flow.branches -= all - shown.len();
        flow.waits = shown;
    }
}

impl<'a> OwnFunction<'a> {
    fn add(&mut self, steps: &'a [PlanStep]) {
        for step in steps {
            self.is_durable |= step.durable.is_some();
            step.ways.iter().for_each(|way| self.add(way));
            // where a step has no name, others of the library may be
            if !step.name.is_empty() {
                self.steps.insert((&step.name, &step.source), step);
            }
        }
    }

    fn find(&self, StepPlace { name, file, line }: &StepPlace) -> Option<&'a PlanStep> {
        let source = format!("{file}:{line}");
        self.steps.get(&(name.as_deref()?, source.as_str())).copied()
    }

    fn has_any(&self, wait: &WaitInfo) -> bool {
        wait.steps.iter().any(|step| self.find(step).is_some())
    }

    fn show(&self, wait: &mut WaitInfo) {
        let known: Vec<_> = wait.steps.iter().filter_map(|step| self.find(step)).collect();
        let retry = known.iter().rev().find_map(|step| step.retry.as_ref());
        wait.attempts = retry.map(|retry| retry.attempts);
        wait.limit_of = wait.limited_by.as_ref().and_then(|step| self.find(step)?.timeout);
        if wait.cause == "future"
            && let Some(step) = known.last()
        {
            wait.awaits = Some(match step.durable.as_deref() {
                _ if step.is_signal => Awaited::Signal,
                Some("waits") => Awaited::Sleep,
                _ => Awaited::Body,
            });
        }
        let first = wait.steps.iter().position(|step| self.find(step).is_some());
        wait.steps.drain(..first.unwrap_or_default());
        wait.steps.retain(|step| step.name.is_some());
    }
}
