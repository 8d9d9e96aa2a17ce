//! What metrics show of durable requests. The journal is asked when they are read, at most every few seconds.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use asyncsteps_actors::clock::Clock;
use asyncsteps_executor::observe::{HostFigures, HostMetric, Labels, MetricKind};
use asyncsteps_journal::request::{Counts, FlowState, OpenFlows};
use asyncsteps_journal::{Epoch, Error, Refused, Timestamp, Uid};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::timeout;

use crate::held::RunningStep;
use crate::shared::DurableShared;

/// The least time between two questions to the journal, for all who read the figures.
const PERIOD: Duration = Duration::from_secs(5);

/// How long it may take to answer, before it counts as away.
const PATIENCE: Duration = Duration::from_secs(1);

/// The most functions that are shown, by name: there are seven states of each.
const FUNCTIONS: usize = 100;

/// The most requests of schedules that are looked at because they are due and have not begun.
const DUE: usize = 20;

/// What is kept for the figures of durable requests.
#[derive(Default)]
pub(crate) struct DurableFigures {
    pub(crate) renewals: AtomicU64,
    pub(crate) leases_lost: AtomicU64,
    /// The requests of each schedule that were stored before their time: the first that is not known to have begun, and
    /// the newest.
    scheduled: Mutex<BTreeMap<String, Vec<ScheduledRequest>>>,
    looked: AsyncMutex<Option<Looked>>,
}

/// A request that was stored before its time.
#[derive(Clone)]
pub(crate) struct ScheduledRequest {
    pub(crate) function: String,
    pub(crate) at: Timestamp,
    pub(crate) uid: Uid,
}

/// What the journal has answered, or not.
struct Looked {
    at: Clock,
    counts: Option<Counts>,
    heads: Heads,
    /// How late the latest scheduled request of each function is.
    lags: BTreeMap<String, Duration>,
}

/// The first request that waits for a node, and since when it is the first, of each function.
type Heads = BTreeMap<String, (Uid, Epoch, Clock)>;

impl DurableFigures {
    /// The next request of a schedule is stored.
    pub(crate) fn stored(&self, schedule: &str, request: ScheduledRequest) {
        let mut scheduled = self.scheduled.lock();
        let requests = scheduled.entry(schedule.to_owned()).or_default();
        requests.truncate(1);
        requests.push(request);
    }

    /// How late the requests of schedules are that have not begun at this time, by function.
    async fn lags(
        &self,
        shared: &DurableShared,
        now: Timestamp,
    ) -> Result<BTreeMap<String, Duration>, Error> {
        let due: Vec<_> = {
            let all = self.scheduled.lock();
            let due = all.values().flatten().filter(|request| request.at <= now);
            due.take(DUE).cloned().collect()
        };
        let mut lags = BTreeMap::new();
        for ScheduledRequest { function, at, uid } in due {
            let has_begun = match shared.journal.status(uid).await {
                Ok(status) => {
                    status.flow.epoch > Epoch::new(0) || status.flow.state == FlowState::Ended
                }
                Err(Error::Refused(Refused::NoFlow(_))) => true,
                Err(error) => return Err(error),
            };
            let lag = lags.entry(function).or_default();
            if has_begun {
                let mut all = self.scheduled.lock();
                all.values_mut().for_each(|requests| requests.retain(|it| it.uid != uid));
            } else {
                *lag = between(at, now).max(*lag);
            }
        }
        Ok(lags)
    }
}

impl Looked {
    /// Asks the journal.
    async fn ask(shared: &DurableShared, before: Heads) -> Self {
        let at = Clock::start();
        let mut functions: Vec<_> = shared.programs().into_iter().map(|it| it.template).collect();
        functions.sort_unstable();
        functions.truncate(FUNCTIONS);
        let asked = async {
            let counts = shared.journal.count(functions).await?;
            let lags = shared.figures.lags(shared, counts.time).await?;
            Ok::<_, Error>((counts, lags))
        };
        let answer = timeout(PATIENCE, asked).await;
        let Ok(Ok((counts, lags))) = answer else {
            return Self { at, counts: None, heads: before, lags: BTreeMap::new() };
        };
        let mut heads = Heads::new();
        for it in counts.flows.iter().filter(|it| is_queued(it.state)) {
            let known = before.get(&it.template);
            let known = known.filter(|(uid, epoch, _)| (*uid, *epoch) == (it.oldest, it.epoch));
            let head = known.copied().unwrap_or((it.oldest, it.epoch, at));
            // of the two states, the one whose first request waits for longer
            let longest = heads.entry(it.template.clone()).or_insert(head);
            if head.2.elapsed() > longest.2.elapsed() {
                *longest = head;
            }
        }
        Self { at, counts: Some(counts), heads, lags }
    }

    fn metrics(&self) -> Vec<HostMetric> {
        let is_up = f64::from(u8::from(self.counts.is_some()));
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

impl HostFigures for DurableShared {
    fn figures(&self) -> BoxFuture<'_, Vec<HostMetric>> {
        Box::pin(async {
            let mut looked = self.figures.looked.lock().await;
            if looked.as_ref().is_none_or(|looked| looked.at.elapsed() >= PERIOD) {
                let before = looked.as_ref().map(|looked| looked.heads.clone());
                *looked = Some(Looked::ask(self, before.unwrap_or_default()).await);
            }
            let mut all: Vec<_> = looked.iter().flat_map(Looked::metrics).collect();
            drop(looked);
            all.extend(self.of_process());
            all
        })
    }
}

impl DurableShared {
    /// What this process has.
    fn of_process(&self) -> [HostMetric; 6] {
        let mut bodies = BTreeMap::<_, Duration>::new();
        for RunningStep { function, running, .. } in self.held.running() {
            let oldest = bodies.entry(function.to_string()).or_default();
            *oldest = running.max(*oldest);
        }
        let leases = self
            .leases()
            .into_iter()
            .map(|(node, lease)| (vec![("node", node.to_string())], lease.age().as_secs_f64()));
        let total = |name, help, count: &AtomicU64| HostMetric {
            kind: MetricKind::Total,
            ..gauge(name, help, number(count.load(Relaxed)))
        };
        let DurableFigures { renewals, leases_lost, .. } = &self.figures;
        let (owned, turns) = (self.entities.count(), self.entities.turns.inspect().load());
        [
            HostMetric {
                name: "asyncsteps_durable_oldest_body",
                help: "How long the oldest body has run in this process",
                kind: MetricKind::Seconds,
                samples: by_function(bodies.into_iter()),
            },
            HostMetric {
                name: "asyncsteps_durable_lease_age",
                help: "The time since a node asked for the lease that it has; it lasts for 10 s",
                kind: MetricKind::Seconds,
                samples: leases.collect(),
            },
            total("asyncsteps_durable_lease_renewals", "Renewed leases", renewals),
            total("asyncsteps_durable_leases_lost", "Leases that nodes have lost", leases_lost),
            gauge("asyncsteps_durable_entities", "Entities of this process", number(owned)),
            gauge(
                "asyncsteps_durable_entity_calls_queued",
                "Calls that wait for their turn in an entity",
                number(turns.queued),
            ),
        ]
    }
}

/// Whether a request in this state is to be taken by a node: suspects wait for each other.
fn is_queued(state: FlowState) -> bool {
    matches!(state, FlowState::New | FlowState::Ready)
}

/// The name of a state as the interface for jobs has it.
fn named(state: FlowState) -> String {
    format!("{state:?}").to_lowercase()
}

fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::from_millis(to.as_millis().saturating_sub(from.as_millis()))
}

fn by_function(times: impl Iterator<Item = (String, Duration)>) -> Vec<(Labels, f64)> {
    times.map(|(name, time)| (vec![("function", name)], time.as_secs_f64())).collect()
}

fn gauge(name: &'static str, help: &'static str, value: f64) -> HostMetric {
    HostMetric { name, help, kind: MetricKind::Gauge, samples: vec![(Vec::new(), value)] }
}

#[expect(clippy::cast_precision_loss, reason = "below 2^53 there is none")]
fn number(count: impl TryInto<u64>) -> f64 {
    count.try_into().unwrap_or(u64::MAX) as f64
}
