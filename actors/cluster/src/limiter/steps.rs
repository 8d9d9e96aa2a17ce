//! The limiter, as steps use it.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use asyncsteps_core::sync::{ISync, Section};
use asyncsteps_core::{AsyncSteps, Identity, StepResult};

use super::options::Limits;
use super::state::{LimiterPlace, LimiterState};
use crate::cluster::Cluster;
use crate::store::LockId;
use crate::throttle::Throttle;

/// A limiter between machines: a number of sections at once, and a number per period, on all nodes
/// together. Cheap to clone.
///
/// It is used as the [local one](asyncsteps_actors::sync::Limiter): `.limited(&limiter)` behind a step, or
/// `asi.sync(&limiter, ..)`. A flow that waits for the next period holds its place meanwhile; a section
/// that is entered again takes no further place, but counts as an entry.
///
/// It is a limit on load, no lock: it has no token, and a section goes on when its node loses its lease. Then others
/// have its place as well, until it ends.
///
/// ```no_run
/// use asyncsteps_cluster::{Cluster, Config, Limits, Rate};
///
/// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
/// let cluster = Cluster::connect("postgres://shop@db/shop", Config::default()).await?;
/// let limits = Limits { concurrent: 8, max_queue: Some(100), rate: Rate::per_second(50) };
/// let bank = cluster.limiter("bank", limits)?;
/// let mut flow = asyncsteps_core::Flow::new();
/// flow.run(async |()| Ok(())).limited(&bank);
/// # Ok(()) }
/// ```
#[derive(Clone, derive_more::Debug)]
#[debug("Limiter {{ name: {:?}, key: {:?}, .. }}", state.id().name, state.id().key)]
pub struct Limiter {
    state: Arc<LimiterState>,
    throttle: Throttle,
    // the node's tasks run as long as there is a lock of it
    cluster: Cluster,
}

/// The step's place in the limiter; dropped when the step has ended.
#[derive(Clone)]
struct PlaceGuard {
    state: Arc<LimiterState>,
    owner: Identity,
    place: Rc<RefCell<Option<LimiterPlace>>>,
}

impl Cluster {
    /// The limiter of this name. Of several uses of a name on this node, the limits of the first one
    /// count; all nodes should have the same. Its rate is shared with the throttle of this name.
    ///
    /// # Errors
    /// [`Error::Config`](crate::Error::Config) for a limit that cannot be used.
    pub fn limiter(&self, name: &'static str, limits: Limits) -> Result<Limiter, crate::Error> {
        limits.check()?;
        let throttle = self.throttle(name, limits.rate)?;
        let state = self.limiter_state(&LockId { name, key: Arc::from("") }, limits);
        Ok(Limiter { state, throttle, cluster: self.clone() })
    }
}

impl Limiter {
    /// The limiter of a key: each key has places and periods of its own, under the same limits. The key
    /// has at most 512 bytes and no zero byte, or whatever enters fails with InvalidRequest.
    #[must_use]
    pub fn key(&self, key: impl AsRef<str>) -> Self {
        let key = key.as_ref();
        let id = LockId { name: self.state.id().name, key: Arc::from(key) };
        let state = self.cluster.limiter_state(&id, *self.state.limits());
        Self { state, throttle: self.throttle.key(key), cluster: self.cluster.clone() }
    }

    /// How many sections run on this node, or wait for the next period with a place.
    #[must_use]
    pub fn inside(&self) -> u32 {
        self.state.inside()
    }
}

impl ISync for Limiter {
    fn sync(&self, asi: &mut AsyncSteps, section: Section) -> StepResult {
        let (throttle, state) = (self.throttle.clone(), Arc::clone(&self.state));
        let owner = asi.identity();
        let is_inside = asi
            .kept::<PlaceGuard>()
            .any(|held| held.owner == owner && Arc::ptr_eq(&held.state, &state));
        let section = section.within(asi, move |asi, section| throttle.sync(asi, section));
        if is_inside {
            return section.enter(asi);
        }
        let name = state.id().name;
        let held = PlaceGuard { state: Arc::clone(&state), owner, place: Rc::default() };
        asi.hold_named(held.clone());
        asi.add_inner(move |asi, ()| {
            asi.await_in_place(async move {
                let place = state.enter().await?;
                held.place.replace(Some(place));
                Ok::<_, asyncsteps_core::Error>(())
            });
        })
        .named(name);
        section.add(asi);
        Ok(())
    }
}
