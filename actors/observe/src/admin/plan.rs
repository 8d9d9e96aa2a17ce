//! The plan of a function, with reports about its steps.

use std::collections::BTreeMap;
use std::slice;
use std::time::Duration;

use asyncsteps_actors::record::{Ending, RecordedStep};
use asyncsteps_core::{StepLocation, Wait};
use asyncsteps_futoin::iface::FunctionName;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::task::yield_now;

use super::inspector::Inspector;
use super::steps::ms;
use asyncsteps_executor::InFlightFilter;
use asyncsteps_executor::plan::{Form, Plan, PlanStep};

/// The most steps of a plan that are reported.
const STEPS: usize = 500;

/// The most requests in flight that are looked at, the oldest ones.
const FLOWS: usize = 200;

/// The most requests that have ended that are looked at, the newest ones that are kept.
const RECORDS: usize = 100;

/// How many of them are looked at in one turn of the arbiter: some 100 microseconds.
const TURN: usize = 4;

/// The plan of a function, with reports about its steps.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct FunctionPlan {
    /// The plan, with its first 500 steps, or fewer if that is too much for an answer.
    pub plan: Plan,
    /// The same as a tree for people: a line for the function, and one for each step.
    pub text: String,
    /// How many steps the plan has.
    #[schemars(with = "f64")]
    pub all: usize,
    /// How many of the oldest 200 requests in flight with such a name are its requests.
    #[schemars(with = "f64")]
    pub in_flight: usize,
    /// How many of its requests that have ended were looked at: the newest 100 that the executor
    /// [keeps](asyncsteps_executor::Builder::record), which by default are slow and failed ones.
    #[schemars(with = "f64")]
    pub kept: usize,
    /// The report of each step, in the order of the lines of the text.
    pub reports: Vec<StepReport>,
}

/// The report of a step of a plan, from the requests in flight and the requests that were kept.
///
/// Steps of one name and source place that are beside each other are counted as the first of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct StepReport {
    /// How many branches of requests in flight are in the step, or in one inside of it.
    #[schemars(with = "f64")]
    pub running: usize,
    /// What the branches in this step, but in no step inside of it, wait for, in one word each.
    #[schemars(with = "BTreeMap<String, f64>")]
    pub waits: BTreeMap<String, u64>,
    /// How often it ended in the requests that were kept.
    #[schemars(with = "f64")]
    pub ended: usize,
    /// How often it failed in them, by the code of its error.
    #[schemars(with = "BTreeMap<String, f64>")]
    pub errors: BTreeMap<String, u64>,
    /// The time that 99 % of its runs in them took at the most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
}

impl Inspector {
    /// The plan of a function by its full name, `iface:version:function`, with reports about its steps: requests that
    /// were called by the name of an interface that its own inherits from are left out. `None` if it is not hosted.
    pub async fn plan(&self, function: &str) -> Option<FunctionPlan> {
        let plan = self.executor().plans().into_iter().find(|plan| plan.function == function)?;
        let name: FunctionName = function.parse().ok()?;
        let all = plan.counts().values().sum();
        let plan = plan.first(STEPS);
        let is_own = |other: &FunctionName| {
            (other.iface(), other.func()) == (name.iface(), name.func())
                && other.version().major == name.version().major
        };
        let filter = InFlightFilter::default().function(&format!(":{}", name.func()));
        let requests = self.executor().oldest_in_flight(filter, FLOWS).await.requests;
        let recent = self.executor().recent();
        let mut known = Known::of(&plan);
        let (mut in_flight, mut kept) = (0, 0);
        for request in requests.iter().filter(|request| is_own(&request.function)) {
            in_flight += 1;
            request.stack.waits.iter().for_each(|wait| known.wait(wait));
        }
        for record in recent.iter().filter(|record| is_own(&record.function)).take(RECORDS) {
            kept += 1;
            let tree = record.steps.tree();
            tree.steps.iter().for_each(|step| known.ended(step, Known::WHOLE, record.steps.length));
            if kept % TURN == 0 {
                yield_now().await;
            }
        }
        let reports = known.into_reports();
        Some(FunctionPlan { text: plan.to_text(), plan, all, in_flight, kept, reports })
    }
}

impl FunctionPlan {
    /// The same, cut to the first steps whose JSON fits into this number of bytes.
    pub(super) fn within(mut self, bytes: usize) -> Self {
        while serde_json::to_vec(&self).is_ok_and(|json| json.len() > bytes) {
            let most = self.reports.len() * 3 / 4;
            self.reports.truncate(most);
            self.plan = self.plan.first(most);
            self.text = self.plan.to_text();
            if most == 0 {
                break;
            }
        }
        self
    }
}

/// The steps of a plan in the order of its tree, and their reports.
struct Known<'a> {
    steps: Vec<KnownStep<'a>>,
    /// The steps that are beside each other, by their numbers.
    levels: Vec<Vec<usize>>,
}

struct KnownStep<'a> {
    step: &'a PlanStep,
    /// Where the steps are that run inside of it.
    inside: usize,
    report: StepReport,
    times: Vec<Duration>,
}

impl<'a> Known<'a> {
    /// The steps of the function.
    const WHOLE: usize = 0;

    fn of(plan: &'a Plan) -> Self {
        let mut known = Self { steps: Vec::new(), levels: Vec::new() };
        known.add(slice::from_ref(&plan.steps));
        known
    }

    fn add(&mut self, ways: &'a [Vec<PlanStep>]) -> usize {
        let level = self.levels.len();
        self.levels.push(Vec::new());
        for step in ways.iter().flatten() {
            let number = self.steps.len();
            self.levels[level].push(number);
            let (report, times) = (StepReport::default(), Vec::new());
            // the level goes on inside of an early end
            self.steps.push(KnownStep { step, inside: level, report, times });
            if step.form != Form::OrEnd {
                self.steps[number].inside = self.add(&step.ways);
            }
        }
        level
    }

    /// The step of a level that was written there.
    fn find(&self, level: usize, place: StepLocation) -> Option<usize> {
        let (name, line) = (place.name().unwrap_or_default(), place.line().to_string());
        let is_it = |step: &PlanStep| {
            step.name == name && step.source.rsplit_once(':') == Some((place.file(), line.as_str()))
        };
        self.levels[level].iter().copied().find(|number| is_it(self.steps[*number].step))
    }

    /// A branch of a request waits.
    fn wait(&mut self, wait: &Wait) {
        let (mut level, mut inmost) = (Self::WHOLE, None);
        for place in &*wait.stack {
            if let Some(number) = self.find(level, *place) {
                self.steps[number].report.running += 1;
                (level, inmost) = (self.steps[number].inside, Some(number));
            }
        }
        if let Some(number) = inmost {
            let cause = wait.cause.as_str().to_owned();
            *self.steps[number].report.waits.entry(cause).or_default() += 1;
        }
    }

    /// A step was recorded inside of one with this level.
    fn ended(&mut self, recorded: &RecordedStep, level: usize, length: Duration) {
        // an undo is a flow of its own
        let found = self.find(level, recorded.location).filter(|_| recorded.flow == 0);
        if let Some(number) = found
            && let Some((_, ending)) = &recorded.ended
        {
            let KnownStep { report, times, .. } = &mut self.steps[number];
            report.ended += 1;
            times.push(recorded.time(length));
            if let Ending::Error(error) = ending {
                *report.errors.entry(error.code.to_string()).or_default() += 1;
            }
        }
        let level = found.map_or(level, |number| self.steps[number].inside);
        recorded.steps.iter().for_each(|step| self.ended(step, level, length));
    }

    fn into_reports(self) -> Vec<StepReport> {
        let report = |KnownStep { report, mut times, .. }: KnownStep<'_>| {
            times.sort_unstable();
            let p99 = times.get((times.len() * 99).div_ceil(100).saturating_sub(1));
            StepReport { p99: p99.copied().map(ms), ..report }
        };
        self.steps.into_iter().map(report).collect()
    }
}
