//! Questions to an executor of the same process.

use std::cmp::Reverse;
use std::time::{Duration, UNIX_EPOCH};

use asyncsteps_actors::sync::KeyReport;

use super::steps::ms;
use super::types::{
    FlowInFlight, FlowState, FlowsInFlight, FunctionReport, Health, KeyInfo, LockInfo,
    RecentRequest, RequestSteps, ServiceState, WaitInfo,
};
use crate::executor::{Executor, InFlightRequest, RequestState};
use crate::observe::{FunctionFigures, Locks, RequestRecord, WatchedLock};

/// The most keys of a lock that are told: a lock may have as many as there are requests.
const KEYS: usize = 100;

/// Asks an executor of the same process what runs in it. Cheap to clone.
///
/// Its futures panic outside of a tokio runtime, and lose nothing when they are dropped; an arbiter
/// that does not answer within a second is left out.
#[derive(Clone, Debug)]
pub struct Inspector {
    executor: Executor,
    locks: Locks,
}

impl Inspector {
    /// Asks this executor, and these locks.
    #[must_use]
    pub fn new(executor: &Executor, locks: Locks) -> Self {
        Self { executor: executor.clone(), locks }
    }

    /// The executor that is asked.
    #[must_use]
    pub fn executor(&self) -> &Executor {
        &self.executor
    }

    /// Whether the executor takes requests, and how busy it is.
    pub async fn health(&self) -> Health {
        let executor = &self.executor;
        let arbiter_delays = executor.arbiter_delays().await.into_iter().map(ms).collect();
        let usage = executor.usage();
        let is_closing = executor.is_closing();
        Health {
            state: if is_closing { ServiceState::Closing } else { ServiceState::Serving },
            in_flight: executor.in_flight_count(),
            running: usage.running,
            queued: usage.queued,
            memory: usage.memory,
            admitted: usage.admitted,
            rejected: usage.refused,
            unanswerable: executor.unanswerable(),
            arbiter_delays,
            refused: executor.refused(),
        }
    }

    /// The requests whose flows wait and whose function has this text in its name: the oldest ones.
    pub async fn flows(&self, function: &str, most: usize) -> FlowsInFlight {
        let mut flows = self.executor.in_flight().await;
        flows.retain(|flow| flow.function.as_str().contains(function));
        flows.sort_by_key(|flow| Reverse(flow.age));
        let shown = flows.iter().take(most).map(FlowInFlight::from).collect();
        FlowsInFlight { flows: shown, all: flows.len() }
    }

    /// What the steps of a request have done, in flight or kept; `None` if it is neither.
    pub async fn steps(&self, number: u64) -> Option<RequestSteps> {
        self.executor.steps(number).await.as_ref().map(RequestSteps::from)
    }

    /// The requests that are over, were kept, and whose function has this text in its name: the newest
    /// ones.
    #[must_use]
    pub fn recent(&self, function: &str, most: usize) -> Vec<RecentRequest> {
        let kept = self.executor.recent();
        let found = kept.iter().filter(|record| record.function.as_str().contains(function));
        found.take(most).map(|record| RecentRequest::from(&**record)).collect()
    }

    /// What was counted of each function since the executor was built.
    #[must_use]
    pub fn functions(&self) -> Vec<FunctionReport> {
        self.executor.figures().functions.iter().map(FunctionReport::from).collect()
    }

    /// The locks that this was told of.
    #[must_use]
    pub fn locks(&self) -> Vec<LockInfo> {
        self.locks.look().iter().map(LockInfo::from).collect()
    }

    /// Cancels a request in flight, and gives whether there was such a flow; see [`Executor::cancel`].
    pub async fn cancel(&self, number: u64) -> bool {
        let is_cancelled = self.executor.cancel(number).await;
        if is_cancelled {
            tracing::info!(number, "request cancelled by hand");
        }
        is_cancelled
    }
}

impl From<&InFlightRequest> for FlowInFlight {
    fn from(request: &InFlightRequest) -> Self {
        let stack = &request.stack;
        Self {
            number: request.number,
            function: request.function.as_str().to_owned(),
            user: request.user.clone(),
            age: ms(request.age),
            state: match request.state {
                RequestState::Running => FlowState::Running,
                RequestState::Undoing => FlowState::Undoing,
            },
            idle: ms(stack.idle),
            waits: stack.waits.iter().map(|wait| WaitInfo::at(wait, stack.at)).collect(),
        }
    }
}

impl From<&RequestRecord> for RecentRequest {
    fn from(record: &RequestRecord) -> Self {
        let arrived = record.arrived.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            number: record.number,
            function: record.function.as_str().to_owned(),
            rid: record.rid.clone(),
            user: record.user.clone(),
            arrived: ms(arrived).floor(),
            queued: ms(record.queued),
            total: ms(record.total),
            outcome: record.outcome.clone(),
            steps: record.steps.to_string(),
        }
    }
}

impl From<&FunctionFigures> for FunctionReport {
    fn from(figures: &FunctionFigures) -> Self {
        let FunctionFigures { function, total, queued, errors } = figures;
        let count = total.count();
        Self {
            function: function.clone(),
            count,
            errors: errors.clone(),
            mean: ms(mean(total.sum, count)),
            p50: ms(total.quantile(0.5)),
            p90: ms(total.quantile(0.9)),
            p99: ms(total.quantile(0.99)),
            queued_p99: ms(queued.quantile(0.99)),
        }
    }
}

fn mean(sum: Duration, count: u64) -> Duration {
    let nanos = sum.as_nanos().checked_div(count.into()).unwrap_or_default();
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

impl From<&WatchedLock> for LockInfo {
    fn from(WatchedLock { kind, report }: &WatchedLock) -> Self {
        let load = report.load();
        let mut keys: Vec<&KeyReport> = report.keys.iter().collect();
        keys.sort_by_key(|key| (Reverse(key.queued), Reverse(key.holders), &key.key));
        let info = |key: &&KeyReport| KeyInfo {
            key: key.key.to_string(),
            holders: key.holders,
            queued: key.queued,
        };
        Self {
            kind: (*kind).to_owned(),
            name: report.name.to_owned(),
            holders: load.holders,
            queued: load.queued,
            all_keys: load.keys,
            keys: keys.iter().take(KEYS).map(info).collect(),
        }
    }
}
