//! The figures of durable requests, for metrics.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use asyncsteps_actors::clock::Clock;
use asyncsteps_executor::observe::{HostFigures, HostMetric, MetricKind};
use asyncsteps_journal::request::FlowState;
use asyncsteps_journal::{Epoch, Error, Refused, Timestamp};
use futures_util::future::BoxFuture;
use tokio::time::timeout;

use crate::figures::{
    DurableFigures, Heads, Looked, ScheduledRequest, between, by_function, gauge, number,
};
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

impl HostFigures for DurableShared {
    fn figures(&self) -> BoxFuture<'_, Vec<HostMetric>> {
        Box::pin(async {
            let mut looked = self.figures.looked.lock().await;
            if looked.as_ref().is_none_or(|looked| looked.at.elapsed() >= PERIOD) {
                let before = looked.as_ref().map(|looked| looked.heads.clone());
                *looked = Some(self.look(before.unwrap_or_default()).await);
            }
            let is_lost = self.journal.lost_since().is_some();
            let mut all: Vec<_> = looked.iter().flat_map(|it| it.metrics(is_lost)).collect();
            drop(looked);
            all.extend(self.of_process());
            all
        })
    }
}

impl DurableShared {
    /// Asks the journal.
    async fn look(&self, before: Heads) -> Looked {
        let at = Clock::start();
        let mut functions: Vec<_> = self.programs().into_iter().map(|it| it.template).collect();
        functions.sort_unstable();
        functions.truncate(FUNCTIONS);
        let asked = async {
            let counts = self.journal.count(functions).await?;
            let lags = self.lags(counts.time).await?;
            Ok::<_, Error>((counts, lags))
        };
        let answer = timeout(PATIENCE, asked).await;
        let Ok(Ok((counts, lags))) = answer else {
            return Looked { at, counts: None, heads: before, lags: BTreeMap::new() };
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
        Looked { at, counts: Some(counts), heads, lags }
    }

    /// How late the requests of schedules are that have not begun at this time, by function.
    async fn lags(&self, now: Timestamp) -> Result<BTreeMap<String, Duration>, Error> {
        let due: Vec<_> = {
            let all = self.figures.scheduled.lock();
            let due = all.values().flatten().filter(|request| request.at <= now);
            due.take(DUE).cloned().collect()
        };
        let mut lags = BTreeMap::new();
        for ScheduledRequest { function, at, uid } in due {
            let has_begun = match self.journal.status(uid).await {
                Ok(status) => {
                    status.flow.epoch > Epoch::new(0) || status.flow.state == FlowState::Ended
                }
                Err(Error::Refused(Refused::NoFlow(_))) => true,
                Err(error) => return Err(error),
            };
            let lag = lags.entry(function).or_default();
            if has_begun {
                let mut all = self.figures.scheduled.lock();
                all.values_mut().for_each(|requests| requests.retain(|it| it.uid != uid));
            } else {
                *lag = between(at, now).max(*lag);
            }
        }
        Ok(lags)
    }

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
