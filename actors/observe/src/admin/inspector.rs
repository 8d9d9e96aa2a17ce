//! Questions to an executor of the same process.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use asyncsteps_actors::sync::LockOwner;
use asyncsteps_core::FlowId;

use super::locks::{HeldLockInfo, LockInfo, WaitGraph};
use super::naming::Names;
use super::own_steps::OwnSteps;
use super::steps::ms;
use super::types::{
    FlowInFlight, FlowsInFlight, FunctionReport, Health, RecentRequest, RefusedInfo, RequestSteps,
    ServiceState, WaitInfo,
};
use crate::locks::{BusyKey, LockDetail, Locks, WatchedLock};
use asyncsteps_executor::observe::{FunctionFigures, RequestRecord};
use asyncsteps_executor::{
    Executor, InFlightFilter, InFlightRequest, OldestInFlight, RefusedRequest,
};

/// The most keys of a lock that are reported: a lock may have as many as there are requests.
const KEYS: usize = 100;

/// The most holders and the most waiters of a key that are reported.
const OWNERS: usize = 16;

/// The most branches of a flow that are reported, and the most locks that it holds.
const BRANCHES: usize = 32;

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
        let delays = executor.arbiter_delays().await;
        let waits = executor.waits_by_cause().await;
        let usage = executor.usage();
        let is_closing = executor.is_closing();
        let refusals = executor.refusals().into_iter().filter(|(_, count)| *count > 0);
        Health {
            state: if is_closing { ServiceState::Closing } else { ServiceState::Serving },
            readiness: executor.readiness_with(&delays),
            in_flight: executor.in_flight_count(),
            running: usage.running,
            queued: usage.queued,
            memory: usage.memory,
            admitted: usage.admitted,
            rejected: usage.refused,
            unanswerable: executor.unanswerable(),
            arbiter_delays: delays.into_iter().map(ms).collect(),
            refused: executor.refused(),
            refusals: refusals.map(|(reason, count)| (reason.as_str().into(), count)).collect(),
            waits: waits.into_iter().map(|(cause, count)| (cause.to_owned(), count)).collect(),
        }
    }

    /// The oldest requests whose flows wait and that the filter is for. Only these are described, however
    /// many are in flight. A durable request and the call that waits for it are one, and steps are those of the plan of
    /// their function, if it has one.
    pub async fn flows(&self, filter: InFlightFilter, most: usize) -> FlowsInFlight {
        let OldestInFlight { mut requests, all, .. } =
            self.executor.oldest_in_flight(filter, most).await;
        let described = requests.len();
        let arrived = join_callers(&mut requests);
        let names = Names::of(&self.executor, holders(&requests)).await;
        let plans = self.executor.plans();
        let own = OwnSteps::of(&plans);
        let flows = requests.iter().map(|request| {
            let mut flow = FlowInFlight::of(request, &names);
            let called = request.recorded.as_ref().and_then(|id| arrived.get(id));
            flow.age = called.map_or(flow.age, |age| ms(*age));
            own.show(&mut flow, request.is_caller);
            flow
        });
        FlowsInFlight { flows: flows.collect(), all: all - (described - requests.len()) }
    }

    /// The history of the steps of a request, in flight or kept; `None` if it is neither.
    pub async fn steps(&self, number: u64) -> Option<RequestSteps> {
        self.executor.steps(number).await.as_ref().map(RequestSteps::from)
    }

    /// The ended requests that were kept and whose function has this text in its name: the newest
    /// ones.
    #[must_use]
    pub fn recent(&self, function: &str, most: usize) -> Vec<RecentRequest> {
        let kept = self.executor.recent();
        let found = kept.iter().filter(|record| record.function.as_str().contains(function));
        found.take(most).map(|record| RecentRequest::from(&**record)).collect()
    }

    /// The counts of each function since the executor was built.
    #[must_use]
    pub fn functions(&self) -> Vec<FunctionReport> {
        self.executor.figures().functions.iter().map(FunctionReport::from).collect()
    }

    /// The requests that were refused last, at most a hundred, the newest first.
    #[must_use]
    pub fn refused(&self) -> Vec<RefusedInfo> {
        self.executor.refused_requests().iter().map(|refused| (&**refused).into()).collect()
    }

    /// The watched locks, with the owners of their busiest keys.
    pub async fn locks(&self) -> Vec<LockInfo> {
        let (locks, names) = self.look().await;
        locks.iter().map(|lock| LockInfo::of(lock, &names)).collect()
    }

    /// Who waits for whom, for these locks.
    pub async fn wait_graph(&self) -> WaitGraph {
        let (locks, names) = self.look().await;
        WaitGraph::of(&locks, &names)
    }

    /// Both of the same moment: [`locks`](Self::locks) and the [`wait_graph`](Self::wait_graph).
    pub async fn locks_and_waits(&self) -> (Vec<LockInfo>, WaitGraph) {
        let (locks, names) = self.look().await;
        let infos = locks.iter().map(|lock| LockInfo::of(lock, &names)).collect();
        (infos, WaitGraph::of(&locks, &names))
    }

    async fn look(&self) -> (Vec<WatchedLock>, Names) {
        let locks = self.locks.look(LockDetail { keys: KEYS, owners: OWNERS }).await;
        let names = Names::of(&self.executor, owners(&locks)).await;
        (locks, names)
    }

    /// Cancels a request in flight, and returns whether there was such a flow; see
    /// [`Executor::cancel`], which logs it.
    pub async fn cancel(&self, number: u64) -> bool {
        self.executor.cancel(number).await
    }
}

/// Removes the calls that wait for durable requests which are among these; returns the ages of these calls.
fn join_callers(requests: &mut Vec<InFlightRequest>) -> HashMap<Arc<str>, Duration> {
    let run = requests.iter().filter(|request| !request.is_caller);
    let run: HashSet<_> = run.filter_map(|request| request.recorded.clone()).collect();
    let mut called = HashMap::new();
    requests.retain(|request| match &request.recorded {
        Some(id) if request.is_caller && run.contains(id) => {
            called.insert(Arc::clone(id), request.age);
            false
        }
        _ => true,
    });
    called
}

/// The flows that these requests wait for, as far as they are reported.
fn holders(requests: &[InFlightRequest]) -> HashSet<FlowId> {
    let waits = requests.iter().flat_map(|request| request.stack.waits.iter().take(BRANCHES));
    let locks = waits.filter_map(|wait| wait.contention.as_ref());
    locks.flat_map(|lock| &lock.holders).map(|holder| holder.flow).collect()
}

/// The flows that hold these locks or wait for them, as far as they are reported.
fn owners(locks: &[WatchedLock]) -> HashSet<FlowId> {
    let keys = locks.iter().flat_map(|lock| &lock.busiest);
    let owners = keys.flat_map(|BusyKey { owners, .. }| {
        let waiting = owners.waiting.iter().map(|waiting| waiting.owner);
        owners.inside.iter().copied().chain(waiting)
    });
    owners.filter_map(LockOwner::flow).map(|identity| identity.flow).collect()
}

impl FlowInFlight {
    fn of(request: &InFlightRequest, names: &Names) -> Self {
        let stack = &request.stack;
        let waits = stack.waits.iter().take(BRANCHES);
        Self {
            number: request.number,
            function: request.function.as_str().to_owned(),
            trace: request.trace.trace_id(),
            durable: request.recorded.as_ref().map(|id| uid_of(id)),
            user: request.user.clone(),
            flow: request.flow_id.map(FlowId::number),
            age: ms(request.age),
            time_left: request.time_left.map(ms),
            state: request.state,
            idle: ms(stack.idle),
            waits: waits.map(|wait| WaitInfo::at(wait, stack.at, names)).collect(),
            branches: stack.waits.len(),
            holds: stack.holds.iter().take(BRANCHES).map(HeldLockInfo::from).collect(),
        }
    }
}

/// The uid in the id of a request that may have begun anew, which is part of its keys.
fn uid_of(id: &str) -> String {
    id.split_once('.').map_or(id, |(uid, _)| uid).to_owned()
}

impl From<&RefusedRequest> for RefusedInfo {
    fn from(request: &RefusedRequest) -> Self {
        Self {
            at: ms(request.at.duration_since(UNIX_EPOCH).unwrap_or_default()).floor(),
            function: request.function.clone(),
            peer: request.peer.map(|peer| peer.to_string()),
            reason: request.reason.as_str().to_owned(),
            code: request.refused.code().to_owned(),
            text: request.refused.text().map(str::to_owned),
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
            trace: record.trace.trace_id(),
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
        let FunctionFigures { function, total, queued, errors, .. } = figures;
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
