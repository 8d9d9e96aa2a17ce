//! What metrics show of durable requests.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use asyncsteps_actors::clock::Clock;
use asyncsteps_executor::observe::{HostMetric, Labels, MetricKind};
use asyncsteps_journal::request::{Counts, FlowState, OpenFlows};
use asyncsteps_journal::{Epoch, Timestamp, Uid};
use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;

/// What is kept for the figures of durable requests.
#[derive(Default)]
pub(crate) struct DurableFigures {
    pub(crate) renewals: AtomicU64,
    pub(crate) leases_lost: AtomicU64,
    /// The requests of each schedule that were stored before their time: the first that is not known to have begun, and
    /// the newest.
    pub(crate) scheduled: Mutex<BTreeMap<String, Vec<ScheduledRequest>>>,
    pub(crate) looked: AsyncMutex<Option<Looked>>,
}

/// A request that was stored before its time.
#[derive(Clone)]
pub(crate) struct ScheduledRequest {
    pub(crate) function: String,
    pub(crate) at: Timestamp,
    pub(crate) uid: Uid,
}

/// What the journal has answered, or not.
pub(crate) struct Looked {
    pub(crate) at: Clock,
    pub(crate) counts: Option<Counts>,
    pub(crate) heads: Heads,
    /// How late the latest scheduled request of each function is.
    pub(crate) lags: BTreeMap<String, Duration>,
}

/// The first request that waits for a node, and since when it is the first, of each function.
pub(crate) type Heads = BTreeMap<String, (Uid, Epoch, Clock)>;

impl DurableFigures {
    /// The next request of a schedule is stored.
    pub(crate) fn stored(&self, schedule: &str, request: ScheduledRequest) {
        let mut scheduled = self.scheduled.lock();
        let requests = scheduled.entry(schedule.to_owned()).or_default();
        requests.truncate(1);
        requests.push(request);
    }
}

impl Looked {
    /// The metrics of a journal that is lost meanwhile, or is not.
    pub(crate) fn metrics(&self, is_lost: bool) -> Vec<HostMetric> {
        let is_up = f64::from(u8::from(self.counts.is_some() && !is_lost));
        let up = "Whether the journal answered in time: 1 or 0";
        let mut all = vec![gauge("asyncsteps_durable_journal_up", up, is_up)];
        let Some(Counts { time, flows, stored, bytes, log_bytes, .. }) = &self.counts else {
            return all;
        };
        let each = |value: &dyn Fn(&OpenFlows) -> f64| {
            let labels = |it: &OpenFlows| {
                vec![("function", it.template.clone()), ("state", named(it.state))]
            };
            flows.iter().map(|it| (labels(it), value(it))).collect()
        };
        let age = |it: &OpenFlows| between(it.created, *time) + self.at.elapsed();
        let heads = self.heads.iter().map(|(name, (.., since))| (name.clone(), since.elapsed()));
        let lags = self.lags.iter().map(|(name, lag)| (name.clone(), *lag));
        all.extend([
            HostMetric {
                name: "asyncsteps_durable_requests",
                help: "Requests that have not ended; 10,000 stand for more as well",
                kind: MetricKind::Gauge,
                samples: each(&|it| number(it.count)),
            },
            HostMetric {
                name: "asyncsteps_durable_oldest",
                help: "The time since the oldest of them was submitted",
                kind: MetricKind::Seconds,
                samples: each(&|it| age(it).as_secs_f64()),
            },
            HostMetric {
                name: "asyncsteps_durable_queue_head",
                help: "How long the same request is the next that waits for a node",
                kind: MetricKind::Seconds,
                samples: by_function(heads),
            },
            HostMetric {
                name: "asyncsteps_durable_schedule_lag",
                help: "How late a request of a schedule is that has not begun",
                kind: MetricKind::Seconds,
                samples: by_function(lags),
            },
            gauge("asyncsteps_durable_stored_requests", "Requests in the journal", number(*stored)),
        ]);
        let sizes = [
            ("asyncsteps_durable_stored", "Bytes of the journal", bytes),
            ("asyncsteps_durable_log", "Bytes of its write-ahead log", log_bytes),
        ];
        all.extend(sizes.into_iter().filter_map(|(name, help, bytes)| {
            let metric = gauge(name, help, number((*bytes)?));
            Some(HostMetric { kind: MetricKind::Bytes, ..metric })
        }));
        all
    }
}

/// The name of a state as the interface for jobs has it.
fn named(state: FlowState) -> String {
    format!("{state:?}").to_lowercase()
}

pub(crate) fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::from_millis(to.as_millis().saturating_sub(from.as_millis()))
}

pub(crate) fn by_function(times: impl Iterator<Item = (String, Duration)>) -> Vec<(Labels, f64)> {
    times.map(|(name, time)| (vec![("function", name)], time.as_secs_f64())).collect()
}

pub(crate) fn gauge(name: &'static str, help: &'static str, value: f64) -> HostMetric {
    HostMetric { name, help, kind: MetricKind::Gauge, samples: vec![(Vec::new(), value)] }
}

#[expect(clippy::cast_precision_loss, reason = "below 2^53 there is none")]
pub(crate) fn number(count: impl TryInto<u64>) -> f64 {
    count.try_into().unwrap_or(u64::MAX) as f64
}
