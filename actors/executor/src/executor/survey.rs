//! Looking through the requests in flight, in pieces that hold up no arbiter.
//!
//! There may be a hundred thousand of them. A message looks at a piece of the requests of its arbiter,
//! and describes only the requested ones: describing one costs a hundred times as much.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use actix::{Addr, Context, Handler, Message, MessageResult};
use asyncsteps_core::FlowId;
use futures_util::future::{BoxFuture, join_all};

use super::actor::answer;
use super::handle::{Executor, ExecutorActor};
use super::in_flight::{InFlightFilter, InFlightRequest, Request, RequestOfFlow};

/// Requests that a message looks at: some 100 microseconds of an arbiter.
const PIECE: usize = 1_000;

/// Requests that a message describes: some 100 microseconds, too.
const DESCRIBED: usize = 50;

/// Some of the requests in flight; returned by [`Executor::oldest_in_flight`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct OldestInFlight {
    /// The oldest ones, the oldest of them first.
    pub requests: Vec<InFlightRequest>,
    /// How many there are in all.
    pub all: usize,
}

/// The function that is applied to each request of a piece.
type Look<R> = Arc<dyn Fn(&mut R, usize, &Request) + Send + Sync>;

/// Looks at a piece of the requests of an arbiter, from an index on.
pub(super) struct LookAt<R> {
    from: usize,
    seen: R,
    look: Look<R>,
}

/// The result so far, and where the next piece begins.
pub(super) struct Seen<R> {
    seen: R,
    next: Option<usize>,
}

impl<R: Send + 'static> Message for LookAt<R> {
    type Result = Seen<R>;
}

/// Describes the requests with these indexes that the filter is for.
pub(super) struct Describe {
    indexes: Vec<usize>,
    filter: InFlightFilter,
}

impl Message for Describe {
    type Result = Vec<InFlightRequest>;
}

/// The youngest one is on top.
#[derive(Default)]
struct Oldest {
    found: BinaryHeap<(Reverse<Duration>, usize)>,
    all: usize,
}

impl Executor {
    /// The requests in flight on all arbiters, with what each flow waits for, the oldest first.
    ///
    /// Requests that wait for a permit have no flow yet, so they are not among them:
    /// [`usage`](Self::usage) counts them. An arbiter that does not answer within a second is left
    /// out.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn in_flight(&self) -> Vec<InFlightRequest> {
        self.oldest_in_flight(InFlightFilter::default(), usize::MAX).await.requests
    }

    /// The oldest requests in flight that a filter is for, at most `most` of them: only these are
    /// described, however many there are. Otherwise as [`in_flight`](Self::in_flight).
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn oldest_in_flight(&self, filter: InFlightFilter, most: usize) -> OldestInFlight {
        let wanted = filter.clone();
        let found = self.look(move |oldest: &mut Oldest, index, request| {
            if request.is_for(&wanted) {
                oldest.all += 1;
                oldest.found.push((Reverse(request.age()), index));
                if oldest.found.len() > most {
                    oldest.found.pop();
                }
            }
        });
        let found = found.await;
        let all = found.iter().map(|(_, oldest)| oldest.all).sum();
        let mut indexed: Vec<(Duration, usize, usize)> = Vec::new();
        for (at, (_, oldest)) in found.iter().enumerate() {
            indexed.extend(oldest.found.iter().map(|(Reverse(age), index)| (*age, at, *index)));
        }
        indexed.sort_by_key(|(age, at, index)| (Reverse(*age), *at, *index));
        indexed.truncate(most);
        let described = found.into_iter().enumerate().map(|(at, (actor, _))| {
            let own = indexed.iter().filter(|(_, of, _)| *of == at).map(|(.., index)| *index);
            describe(actor, own.collect(), filter.clone())
        });
        let described: Vec<_> = described.collect();
        let mut requests = join_all(described).await.concat();
        requests.sort_by_key(|request| Reverse(request.age));
        OldestInFlight { requests, all }
    }

    /// How many branches of the requests in flight wait for what, by the words of
    /// [`WaitCause::as_str`](asyncsteps_core::WaitCause::as_str). A flow without parallel steps is one branch.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn waits_by_cause(&self) -> BTreeMap<&'static str, u64> {
        let counted = self.look(|causes: &mut BTreeMap<&'static str, u64>, _, request| {
            request.causes(|cause| *causes.entry(cause.as_str()).or_default() += 1);
        });
        let mut all = BTreeMap::new();
        for (cause, count) in counted.await.into_iter().flat_map(|(_, causes)| causes) {
            *all.entry(cause).or_default() += count;
        }
        all
    }

    /// The requests in flight that these flows belong to, such as the holders of a lock. A flow that
    /// has ended, or was not started for a request, has none.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn requests_of(&self, flows: HashSet<FlowId>) -> HashMap<FlowId, RequestOfFlow> {
        if flows.is_empty() {
            return HashMap::new();
        }
        let found = self.look(move |found: &mut HashMap<FlowId, RequestOfFlow>, _, request| {
            for flow in request.flows().filter(|flow| flows.contains(flow)) {
                found.insert(flow, request.named());
            }
        });
        found.await.into_iter().flat_map(|(_, found)| found).collect()
    }

    /// Looks at all requests in flight, on all arbiters at once; an arbiter that does not answer is left
    /// out.
    fn look<R: Default + Send + 'static>(
        &self,
        look: impl Fn(&mut R, usize, &Request) + Send + Sync + 'static,
    ) -> BoxFuture<'static, Vec<(Addr<ExecutorActor>, R)>> {
        let look: Look<R> = Arc::new(look);
        let actors = self.shared.actors().clone();
        let looks = actors.into_iter().map(move |actor| look_at(actor, Arc::clone(&look)));
        Box::pin(async move { join_all(looks).await.into_iter().flatten().collect() })
    }
}

/// Looks at all requests of an arbiter; `None` if it does not answer.
async fn look_at<R: Default + Send + 'static>(
    actor: Addr<ExecutorActor>,
    look: Look<R>,
) -> Option<(Addr<ExecutorActor>, R)> {
    let (mut from, mut seen) = (0, R::default());
    loop {
        let piece = LookAt { from, seen, look: Arc::clone(&look) };
        let piece = answer(&actor, piece).await?;
        seen = piece.seen;
        match piece.next {
            Some(next) => from = next,
            None => return Some((actor, seen)),
        }
    }
}

/// The requests with these indexes, without those that have ended meanwhile.
async fn describe(
    actor: Addr<ExecutorActor>,
    indexes: Vec<usize>,
    filter: InFlightFilter,
) -> Vec<InFlightRequest> {
    let mut described = Vec::new();
    for indexes in indexes.chunks(DESCRIBED) {
        let describe = Describe { indexes: indexes.to_vec(), filter: filter.clone() };
        match answer(&actor, describe).await {
            Some(requests) => described.extend(requests),
            None => break,
        }
    }
    described
}

impl<R: Send + 'static> Handler<LookAt<R>> for ExecutorActor {
    type Result = MessageResult<LookAt<R>>;

    fn handle(&mut self, piece: LookAt<R>, _: &mut Context<Self>) -> Self::Result {
        let LookAt { from, mut seen, look } = piece;
        let next = self.requests.each(from, PIECE, |index, request| {
            look(&mut seen, index, request);
        });
        MessageResult(Seen { seen, next })
    }
}

impl Handler<Describe> for ExecutorActor {
    type Result = Vec<InFlightRequest>;

    fn handle(
        &mut self,
        Describe { indexes, filter }: Describe,
        _: &mut Context<Self>,
    ) -> Self::Result {
        indexes.iter().filter_map(|index| self.requests.describe(*index, &filter)).collect()
    }
}
