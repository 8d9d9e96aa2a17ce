//! A pool of arbiters: it places flows and shuts down gracefully.
//!
//! A flow stays on the arbiter that starts it. An [`ArbiterPool`] is for flows that may run on any: it
//! owns arbiters, starts a submitted flow on the one with the fewest flows, and at its shutdown waits
//! for all flows of its arbiters, however they were started.

mod remote;
mod report;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use actix::{Arbiter, ArbiterHandle};
use asyncsteps_core::{Arguments, Error, codes};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::arbiter_load::ArbiterLoad;
use crate::drain::Drained;
use crate::flow::{FlowRef, IntoFlow, list_flows, running_flows};

pub use remote::RemoteFlow;

/// How long undos of flows that were cancelled at the end of the grace may take: time for one call
/// of another service, and little beside the time that a supervisor allows a process to end.
pub const UNDO_GRACE: Duration = Duration::from_secs(5);

/// Arbiters that run flows.
///
/// Dropping it stops the arbiters, which cancels their flows; [`shutdown`](Self::shutdown) lets them
/// finish.
///
/// ```
/// use std::num::NonZeroUsize;
/// use std::time::Duration;
/// use asyncsteps_core::Template;
/// use asyncsteps_actors::pool::ArbiterPool;
///
/// let double = Template::build(|asi| {
///     asi.add(|asi, n: i32| asi.success(n * 2));
/// });
/// actix::System::new().block_on(async {
///     let pool = ArbiterPool::new(NonZeroUsize::MIN);
///     let doubled = pool.submit_anywhere::<i32>((double, 21));
///     assert_eq!(doubled.await.unwrap(), 42);
///     assert_eq!(pool.shutdown(Duration::from_secs(1)).await.cancelled, 0);
/// });
/// ```
#[derive(Debug)]
pub struct ArbiterPool {
    members: Vec<PoolMember>,
}

#[derive(derive_more::Debug)]
#[debug("PoolMember {{ load: {:?}, .. }}", self.load.count())]
struct PoolMember {
    /// Taken when it is joined.
    arbiter: Option<Arbiter>,
    handle: ArbiterHandle,
    load: Arc<ArbiterLoad>,
}

impl ArbiterPool {
    /// Starts `arbiters` arbiters, each with its thread.
    ///
    /// # Panics
    /// Outside of an actix system, or if a thread cannot be started.
    #[must_use]
    pub fn new(arbiters: NonZeroUsize) -> Self {
        Self { members: (0..arbiters.get()).map(|_| PoolMember::new()).collect() }
    }

    /// The arbiters, to start servers, actors or flows there.
    #[must_use]
    pub fn arbiters(&self) -> impl ExactSizeIterator<Item = &ArbiterHandle> {
        self.members.iter().map(|member| &member.handle)
    }

    /// How many flows each arbiter has, including submitted flows that have not begun; flows that
    /// never waited are not counted. `None` for an arbiter that is gone.
    #[must_use]
    pub fn load(&self) -> Vec<Option<usize>> {
        self.members.iter().map(|member| member.load.count()).collect()
    }

    /// Starts a flow on the arbiter with the fewest flows.
    ///
    /// A deadline is inherited and counts from now. The flow is made on that arbiter, so `job` is a
    /// template, one with arguments, or a function that makes a flow.
    pub fn submit_anywhere<A>(&self, job: impl IntoFlow + Send + 'static) -> RemoteFlow<A>
    where
        A: Arguments + Send,
    {
        let loads = self.members.iter().filter_map(|member| Some((member, member.load.count()?)));
        match loads.min_by_key(|(_, load)| *load) {
            Some((member, _)) => member.submit(job),
            None => RemoteFlow::refused(gone()),
        }
    }

    /// Starts a flow on one of the [`arbiters`](Self::arbiters), by its index.
    ///
    /// An index that does not exist refuses the flow, as an arbiter that is gone does.
    pub fn submit_to<A>(&self, arbiter: usize, job: impl IntoFlow + Send + 'static) -> RemoteFlow<A>
    where
        A: Arguments + Send,
    {
        match self.members.get(arbiter) {
            Some(member) => member.submit(job),
            None => RemoteFlow::refused(gone()),
        }
    }

    /// Refuses new submissions with DefenseRejected, waits until all flows of the arbiters have
    /// ended, at most `grace`, then cancels the others: the log says where they were, and their
    /// cancel handlers run. Ends the arbiters and waits for their threads, so for a step that
    /// blocks, too.
    ///
    /// Flows that were submitted before may start others as long as the grace lasts. The effects of
    /// cancelled flows are undone ([`Added::undo`](asyncsteps_core::Added::undo)): within the grace,
    /// and if they are cancelled at its end, within [5 seconds](UNDO_GRACE) more. An undo that takes
    /// longer is logged as failed and counted as [`not_undone`](Drained::not_undone). The bodies of
    /// shielded steps go on as long.
    ///
    /// So it takes the grace and up to 7 seconds more: arbiters have one second to report what runs and
    /// one to cancel it, and undos have five. A step that blocks its thread is waited for without limit.
    ///
    /// # Cancel safety
    /// Dropping the future stops the arbiters without waiting for them.
    pub async fn shutdown(mut self, grace: Duration) -> Drained {
        self.members.iter().for_each(|member| {
            member.load.flows.close();
        });
        let idle = async {
            for member in &self.members {
                member.load.flows.idle().await;
            }
        };
        let mut not_undone = 0;
        if tokio::time::timeout(grace, idle).await.is_err() {
            report::log_flows(self.arbiters()).await;
            not_undone = self.undo_flows().await;
        }
        self.stop();
        let arbiters: Vec<Arbiter> =
            self.members.iter_mut().filter_map(|member| member.arbiter.take()).collect();
        let joined = tokio::task::spawn_blocking(|| {
            for arbiter in arbiters {
                if arbiter.join().is_err() {
                    tracing::error!("an arbiter panicked");
                }
            }
        });
        if joined.await.is_err() {
            tracing::error!("the runtime ended before the arbiters did");
        }
        let ended = self.members.iter().map(|member| member.load.flows.ended()).sum();
        Drained { not_undone, ..ended }
    }

    /// Cancels the flows that are left, and waits until their effects are undone. Returns how many
    /// flows still have something to undo after that.
    async fn undo_flows(&self) -> usize {
        let cancelled: Vec<_> = self.arbiters().map(cancel_flows).collect();
        let end = Instant::now() + report::PATIENCE;
        let mut blocked = Vec::new();
        for (member, cancelled) in self.members.iter().zip(cancelled) {
            // an arbiter that is gone has no flows; one that is blocked by a step undoes nothing
            if tokio::time::timeout_at(end, cancelled).await.is_err() {
                blocked.push(Arc::clone(&member.load));
            }
        }
        let undone = async {
            for member in &self.members {
                member.load.parts.idle().await;
            }
        };
        // the time has passed, or all is undone
        let _ = tokio::time::timeout(UNDO_GRACE, undone).await;
        let left = self.members.iter().map(|PoolMember { load, .. }| {
            let parts = load.parts.count();
            let is_blocked = blocked.iter().any(|other| Arc::ptr_eq(other, load));
            // parts are counted among the flows, and so may be the flow that one undoes
            if is_blocked { parts.max(load.flows.count().saturating_sub(parts)) } else { parts }
        });
        let flows = left.sum();
        if flows > 0 {
            tracing::error!(flows, "the grace is over, and not everything is undone");
        }
        flows
    }

    fn stop(&self) {
        // false for an arbiter that is gone
        let _: usize = self.members.iter().filter(|member| member.handle.stop()).count();
    }
}

impl Drop for ArbiterPool {
    fn drop(&mut self) {
        self.stop();
    }
}

impl PoolMember {
    fn new() -> Self {
        let arbiter = Arbiter::new();
        let (load, handle) = (Arc::<ArbiterLoad>::default(), arbiter.handle());
        let attached = Arc::clone(&load);
        // nothing else can reach it before
        arbiter.spawn_fn(move || {
            attached.attach();
            list_flows();
        });
        Self { arbiter: Some(arbiter), handle, load }
    }

    fn submit<A>(&self, job: impl IntoFlow + Send + 'static) -> RemoteFlow<A>
    where
        A: Arguments + Send,
    {
        match self.load.flows.admit() {
            Some(counted) => RemoteFlow::start(&self.handle, job, counted),
            None => {
                let why = "ArbiterPool is closing";
                RemoteFlow::refused(Error::with_info(codes::DEFENSE_REJECTED, why))
            }
        }
    }
}

/// Cancels the flows of an arbiter that are no parts of others; notifies the receiver when their
/// undos have been started.
fn cancel_flows(arbiter: &ArbiterHandle) -> oneshot::Receiver<()> {
    let (reply, cancelled) = oneshot::channel();
    // false if the arbiter is gone: then the reply is dropped
    let _: bool = arbiter.spawn_fn(move || {
        running_flows().iter().filter(|flow| !flow.is_part()).for_each(FlowRef::cancel);
        // it runs after the tasks that were just woken
        actix_rt::spawn(async move {
            // the shutdown may have stopped waiting
            let _ = reply.send(());
        });
    });
    cancelled
}

fn gone() -> Error {
    Error::with_info(codes::INTERNAL_ERROR, "the arbiter is gone")
}

const _: () = {
    const fn any_thread<T: Send>() {}
    any_thread::<ArbiterPool>();
    any_thread::<RemoteFlow<String>>();
};
