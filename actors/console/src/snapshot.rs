//! What the page shows, as it is sent.

use std::collections::BTreeMap;
use std::mem;
use std::time::{Duration, UNIX_EPOCH};

use asyncsteps_actors::clock;
use asyncsteps_actors::sync::deadlock;
use asyncsteps_executor::InFlightFilter;
use asyncsteps_executor::admin::{
    FlowsInFlight, FunctionReport, Health, Inspector, LockInfo, RecentRequest,
};
use asyncsteps_executor::observe::{Distribution, Figures, FunctionFigures};
use serde::Serialize;

/// The most flows in a snapshot, the oldest ones.
const FLOWS: usize = 200;

/// The most requests in a snapshot that are over, the newest ones.
const RECENT: usize = 100;

/// A snapshot after a longer time tells no rates: no one has looked meanwhile.
const LONG: Duration = Duration::from_secs(5);

/// Every so many buckets of a distribution are shown as one: four in each decade.
const TOGETHER: usize = 3;

/// What the page shows.
#[derive(Debug, Serialize)]
pub(crate) struct Snapshot {
    /// The time of day, in milliseconds since 1970.
    at: f64,
    health: Health,
    /// What happened since the snapshot before; `None` for the first one.
    interval: Option<Interval>,
    functions: Vec<FunctionRow>,
    flows: FlowsInFlight,
    recent: Vec<RecentRequest>,
    locks: Vec<LockInfo>,
    deadlocks: Deadlocks,
}

/// What happened in the time between two snapshots, over all functions.
#[derive(Debug, Serialize)]
struct Interval {
    seconds: f64,
    rate: f64,
    error_rate: f64,
    p50: f64,
    p99: f64,
}

/// A function: since the start, and since the snapshot before.
#[derive(Debug, Serialize)]
struct FunctionRow {
    #[serde(flatten)]
    report: FunctionReport,
    interval: Option<Interval>,
    /// How many requests took how long: four buckets in each decade from 10 microseconds on.
    shape: Vec<u64>,
}

#[derive(Debug, Serialize)]
struct Deadlocks {
    count: u64,
    last: Option<String>,
}

/// What a snapshot needs of those before it.
#[derive(Debug, Default)]
pub(crate) struct History {
    figures: Option<(Duration, Figures)>,
    /// Requests that are over, by number: their lines are written once.
    recent: BTreeMap<u64, RecentRequest>,
}

impl Snapshot {
    /// A snapshot at a time of the console's clock.
    pub(crate) async fn take(inspector: &Inspector, history: &mut History, now: Duration) -> Self {
        let health = inspector.health().await;
        let flows = inspector.flows(InFlightFilter::default(), FLOWS).await;
        let figures = inspector.executor().figures();
        let before = history.figures.take();
        let before = before.filter(|(at, _)| now.saturating_sub(*at) < LONG);
        let passed = before.as_ref().map(|(at, before)| (now.saturating_sub(*at), before));
        let functions = rows(&figures, passed);
        let interval = passed.map(|(time, before)| overall(time, &figures, before));
        let recent = history.recent(inspector);
        history.figures = Some((now, figures));
        let at = clock::wall().duration_since(UNIX_EPOCH).unwrap_or_default();
        let last = deadlock::last().last().map(ToString::to_string);
        Self {
            at: (at.as_secs_f64() * 1e3).floor(),
            health,
            interval,
            functions,
            flows,
            recent,
            locks: inspector.locks().await,
            deadlocks: Deadlocks { count: deadlock::count(), last },
        }
    }
}

impl History {
    fn recent(&mut self, inspector: &Inspector) -> Vec<RecentRequest> {
        let mut known = mem::take(&mut self.recent);
        let kept = inspector.executor().recent();
        let requests: Vec<RecentRequest> = kept
            .iter()
            .take(RECENT)
            .map(|record| known.remove(&record.number).unwrap_or_else(|| (&**record).into()))
            .collect();
        self.recent = requests.iter().map(|it| (it.number, it.clone())).collect();
        requests
    }
}

fn rows(figures: &Figures, before: Option<(Duration, &Figures)>) -> Vec<FunctionRow> {
    let row = |function: &FunctionFigures| {
        let interval = before.map(|(time, before)| {
            let earlier = before.functions.iter().find(|it| it.function == function.function);
            Interval::new(time, &since(function, earlier), errors_since(function, earlier))
        });
        let shape = function.total.counts.chunks(TOGETHER).map(|together| together.iter().sum());
        FunctionRow { report: function.into(), interval, shape: shape.collect() }
    };
    figures.functions.iter().map(row).collect()
}

fn overall(time: Duration, figures: &Figures, before: &Figures) -> Interval {
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
        let ms = |share| times.quantile(share).as_secs_f64() * 1e3;
        Self {
            seconds,
            rate: times.count() as f64 / seconds,
            error_rate: errors as f64 / seconds,
            p50: ms(0.5),
            p99: ms(0.99),
        }
    }
}
