//! The snapshot that a page shows, as it is sent.

use std::collections::{BTreeMap, HashSet};
use std::mem;
use std::time::{Duration, UNIX_EPOCH};

use asyncsteps_actors::clock;
use asyncsteps_durable::RunningStep;
use asyncsteps_executor::observe::{Distribution, Figures, FunctionFigures, RequestRecord};
use asyncsteps_executor::{InFlightFilter, RequestState};
use asyncsteps_observe::admin::{
    Awaited, FlowsInFlight, FunctionReport, Health, Inspector, LockInfo, RecentRequest,
    RefusedInfo, WaitGraph,
};
use serde::Serialize;

use crate::bounds::{self, Bounded as _};
use crate::others::ConsoleSources;
use crate::search::without_callers;

/// A snapshot after a longer time has no rates: no one has looked meanwhile.
const LONG: Duration = Duration::from_secs(5);

/// The snapshot that a page shows.
#[derive(Debug, Serialize)]
pub(crate) struct PageSnapshot {
    /// The time of day, in milliseconds since 1970.
    at: f64,
    health: Health,
    /// Whether there is a fabric whose nodes can be shown.
    has_nodes: bool,
    /// Whether there are durable requests to be shown.
    has_durable: bool,
    /// The greatest times of the buckets of distributions, in milliseconds.
    time_bounds: Vec<f64>,
    /// The changes since the snapshot before; `None` for the first one.
    interval: Option<Interval>,
    functions: Vec<FunctionRow>,
    flows: FlowsInFlight,
    /// The newest ended requests that were kept.
    recent: Vec<RecentRequest>,
    /// How many are kept.
    kept: usize,
    refused: Vec<RefusedInfo>,
    locks: Vec<LockInfo>,
    waits: WaitGraph,
}

/// The changes between two snapshots, over all functions.
#[derive(Debug, Serialize)]
pub(crate) struct Interval {
    seconds: f64,
    rate: f64,
    error_rate: f64,
    p50: f64,
    p99: f64,
    /// How many requests took how long, by bucket; empty if there were none.
    times: Vec<u64>,
}

/// A function: since the start, and since the snapshot before.
#[derive(Debug, Serialize)]
struct FunctionRow {
    #[serde(flatten)]
    report: FunctionReport,
    interval: Option<Interval>,
}

/// The state of earlier snapshots that the next one needs.
#[derive(Debug, Default)]
pub(crate) struct SnapshotHistory {
    figures: Option<(Duration, Figures)>,
    /// Ended requests, by number: their lines are written once.
    recent: BTreeMap<u64, RecentRequest>,
}

impl PageSnapshot {
    /// A snapshot at a time of the console's clock.
    pub(crate) async fn take(
        inspector: &Inspector,
        history: &mut SnapshotHistory,
        now: Duration,
    ) -> Self {
        let health = inspector.health().await;
        let flows = inspector.flows(InFlightFilter::default(), bounds::FLOWS).await;
        let figures = inspector.executor().figures();
        let before = history.figures.take();
        let before = before.filter(|(at, _)| now.saturating_sub(*at) < LONG);
        let passed = before.as_ref().map(|(at, before)| (now.saturating_sub(*at), before));
        let functions = rows(&figures, passed);
        let interval = passed.map(|(time, before)| overall(time, &figures, before));
        let (recent, kept) = history.recent(inspector);
        history.figures = Some((now, figures));
        let (locks, waits) = inspector.locks_and_waits().await;
        Self {
            at: wall_millis(),
            health,
            has_nodes: false,
            has_durable: false,
            time_bounds: Distribution::bounds().map(milliseconds).collect(),
            interval,
            functions,
            flows: flows.bounded(),
            recent,
            kept,
            refused: inspector.refused().bounded(),
            locks: locks.bounded(),
            waits: waits.bounded(),
        }
    }

    /// The same, of a console that shows what else there is, too.
    pub(crate) fn with_others(self, others: &ConsoleSources) -> Self {
        let (has_nodes, has_durable) = (others.nodes.is_some(), others.durable.is_some());
        let mut flows = self.flows;
        if let Some(durable) = &others.durable {
            name_waits(&mut flows, &durable.bodies());
        }
        Self { has_nodes, has_durable, flows, ..self }
    }
}

/// Steps of durable requests whose bodies do not run yet wait for the journal.
fn name_waits(FlowsInFlight { flows, .. }: &mut FlowsInFlight, bodies: &[RunningStep]) {
    let running: HashSet<String> = bodies.iter().map(|body| body.uid.to_string()).collect();
    let waiting = flows.iter_mut().filter(|flow| {
        flow.state == RequestState::Running
            && flow.durable.as_ref().is_some_and(|uid| !running.contains(uid))
    });
    for wait in waiting.flat_map(|flow| &mut flow.waits) {
        if wait.awaits == Some(Awaited::Body) {
            wait.awaits = Some(Awaited::Journal);
        }
    }
}

impl SnapshotHistory {
    /// The newest requests that are kept, and how many are.
    fn recent(&mut self, inspector: &Inspector) -> (Vec<RecentRequest>, usize) {
        let mut known = mem::take(&mut self.recent);
        let kept = without_callers(inspector.executor().recent());
        let requests: Vec<RecentRequest> = kept
            .iter()
            .take(bounds::RECENT)
            .map(|record| known.remove(&record.number).unwrap_or_else(|| line(record)))
            .collect();
        self.recent = requests.iter().map(|it| (it.number, it.clone())).collect();
        (requests, kept.len())
    }
}

fn line(record: &RequestRecord) -> RecentRequest {
    RecentRequest::from(record).bounded()
}

/// A row of each function.
pub(crate) fn rows<R: for<'a> From<(&'a FunctionFigures, Option<Interval>)>>(
    figures: &Figures,
    before: Option<(Duration, &Figures)>,
) -> Vec<R> {
    let row = |function: &FunctionFigures| {
        let interval = before.map(|(time, before)| {
            let earlier = before.functions.iter().find(|it| it.function == function.function);
            Interval::new(time, &since(function, earlier), errors_since(function, earlier))
        });
        R::from((function, interval))
    };
    figures.functions.iter().map(row).collect()
}

impl From<(&FunctionFigures, Option<Interval>)> for FunctionRow {
    fn from((function, interval): (&FunctionFigures, Option<Interval>)) -> Self {
        Self { report: function.into(), interval }
    }
}

/// A function in a second of the past.
#[derive(Debug, Serialize)]
pub(crate) struct FunctionInterval {
    function: String,
    interval: Option<Interval>,
}

impl FunctionInterval {
    pub(crate) fn rate(&self) -> f64 {
        self.interval.as_ref().map_or(0.0, |interval| interval.rate)
    }
}

impl From<(&FunctionFigures, Option<Interval>)> for FunctionInterval {
    fn from((function, interval): (&FunctionFigures, Option<Interval>)) -> Self {
        Self { function: function.function.clone(), interval }
    }
}

pub(crate) fn overall(time: Duration, figures: &Figures, before: &Figures) -> Interval {
    let (mut all, mut errors) = (Distribution::default(), 0);
    for function in &figures.functions {
        let earlier = before.functions.iter().find(|it| it.function == function.function);
        all = all.and(&since(function, earlier));
        errors += errors_since(function, earlier);
    }
    Interval::new(time, &all, errors)
}

fn since(now: &FunctionFigures, earlier: Option<&FunctionFigures>) -> Distribution {
    earlier.map_or_else(|| now.total.clone(), |earlier| now.total.since(&earlier.total))
}

fn errors_since(now: &FunctionFigures, earlier: Option<&FunctionFigures>) -> u64 {
    let errors = |figures: &FunctionFigures| figures.errors.values().sum::<u64>();
    errors(now).saturating_sub(earlier.map_or(0, errors))
}

impl Interval {
    #[expect(clippy::cast_precision_loss, reason = "numbers of requests in a second")]
    fn new(time: Duration, times: &Distribution, errors: u64) -> Self {
        let seconds = time.as_secs_f64().max(1e-3);
        let ms = |share| milliseconds(times.quantile(share));
        Self {
            seconds,
            rate: times.count() as f64 / seconds,
            error_rate: errors as f64 / seconds,
            p50: ms(0.5),
            p99: ms(0.99),
            times: if times.count() == 0 { Vec::new() } else { times.counts.clone() },
        }
    }
}

/// The time of day, in milliseconds since 1970.
pub(crate) fn wall_millis() -> f64 {
    milliseconds(clock::wall().duration_since(UNIX_EPOCH).unwrap_or_default()).floor()
}

pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
