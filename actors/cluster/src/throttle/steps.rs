//! The throttle, as steps use it.

use std::sync::Arc;

use asyncsteps_core::sync::{ISync, Section};
use asyncsteps_core::{AsyncSteps, Error, StepResult};

use super::options::Rate;
use super::state::ThrottleState;
use crate::cluster::Cluster;
use crate::store::LockId;

/// A throttle between machines: a number of entries per period, on all nodes together. Cheap to
/// clone.
///
/// It is used as the [local one](asyncsteps_actors::sync::Throttle): `.limited(&throttle)` behind a step,
/// or `asi.sync(&throttle, ..)`. Flows of a node that wait for the next period enter in the order in which
/// they came.
///
/// Each node counts in periods of its own: in any time of one period there are at most two times `max`
/// entries, as with every count in fixed periods, and over many periods no more than `max` in each.
///
/// ```no_run
/// use asyncsteps_cluster::{Cluster, Config, Rate};
///
/// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
/// let cluster = Cluster::connect("postgres://shop@db/shop", Config::default()).await?;
/// let mails = cluster.throttle("mails", Rate { max_queue: Some(100), ..Rate::per_second(20) })?;
/// let mut flow = asyncsteps_core::Flow::new();
/// flow.run(async |()| Ok(())).limited(&mails.key("ann"));
/// # Ok(()) }
/// ```
#[derive(Clone, derive_more::Debug)]
#[debug("Throttle {{ name: {:?}, key: {:?}, .. }}", state.id().name, state.id().key)]
pub struct Throttle {
    // the node's tasks run as long as there is a lock of it
    cluster: Cluster,
    state: Arc<ThrottleState>,
}

impl Cluster {
    /// The throttle of this name. Of several uses of a name on this node, the limits of the first one
    /// count; all nodes should have the same.
    ///
    /// # Errors
    /// [`Error::Config`](crate::Error::Config) for a limit that cannot be used.
    pub fn throttle(&self, name: &'static str, rate: Rate) -> Result<Throttle, crate::Error> {
        rate.check()?;
        let id = LockId { name, key: Arc::from("") };
        let state = self.throttle_state(&id, rate);
        Ok(Throttle { cluster: self.clone(), state })
    }
}

impl Throttle {
    /// The throttle of a key: each key has periods of its own, under the same limits. The key has at most
    /// 512 bytes and no zero byte, or whatever enters fails with InvalidRequest.
    #[must_use]
    pub fn key(&self, key: impl AsRef<str>) -> Self {
        let id = LockId { name: self.state.id().name, key: Arc::from(key.as_ref()) };
        let state = self.cluster.throttle_state(&id, *self.state.rate());
        Self { cluster: self.cluster.clone(), state }
    }

    /// Enters; ready when the entry is counted. It needs a tokio runtime with timers.
    ///
    /// # Errors
    /// DefenseRejected if too many wait, or the database is unreachable and the [limits](Rate) say
    /// so; InvalidRequest for a key that cannot be used, InternalError if the database refuses a
    /// request.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the queue; an entry that was counted stays counted.
    pub async fn enter(&self) -> Result<(), Error> {
        self.state.enter().await
    }
}

impl ISync for Throttle {
    fn sync(&self, asi: &mut AsyncSteps, section: Section) -> StepResult {
        let (throttle, name) = (self.clone(), self.state.id().name);
        asi.add_inner(move |asi, ()| {
            asi.await_in_place(async move { throttle.enter().await });
        })
        .named(name);
        section.add(asi);
        Ok(())
    }
}
