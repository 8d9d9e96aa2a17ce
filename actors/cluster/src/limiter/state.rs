//! The places of one key of a limiter on this node.

use std::sync::Arc;
use std::time::Duration;

use asyncsteps_core::{Error, codes};

use super::options::Limits;
use super::places::Places;
use crate::node::ClusterNode;
use crate::shares::{EntryAttempt, EntryQueue, Keeper, Standing};
use crate::store::{LockId, Quota};

/// The state that the handles of one key share on this node.
pub(crate) struct LimiterState {
    id: LockId,
    limits: Limits,
    keeper: Arc<Keeper<Places>>,
}

/// A place in a limiter. Dropping it releases the place.
#[derive(derive_more::Debug)]
#[debug("LimiterPlace({:?})", self.0.id)]
pub(super) struct LimiterPlace(Arc<LimiterState>);

impl LimiterState {
    pub(crate) fn new(node: Arc<ClusterNode>, id: LockId, limits: Limits) -> Self {
        let quota = Quota::new("places", &id, limits.concurrent, Duration::ZERO);
        let line = EntryQueue::new(limits.max_queue, "Mutex queue limit");
        Self { id, limits, keeper: Arc::new(Keeper::new(node, quota, line)) }
    }

    pub(crate) fn id(&self) -> &LockId {
        &self.id
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// How many are inside, on this node.
    pub(super) fn inside(&self) -> u32 {
        self.keeper.with(|places, _| places.inside())
    }

    /// Takes a place, after the waiting ones.
    pub(super) async fn enter(self: &Arc<Self>) -> Result<LimiterPlace, Error> {
        self.id.check()?;
        let keeper = &self.keeper;
        let poll = keeper.node().config().poll;
        keeper.line().enter(|| keeper.changed(), poll, || self.attempt()).await?;
        Ok(LimiterPlace(Arc::clone(self)))
    }

    async fn attempt(&self) -> Result<EntryAttempt, Error> {
        self.keeper.know().await;
        self.keeper.with(|places, standing| match standing {
            Standing::None => Err(database_away()),
            Standing::Lost if !self.limits.goes_on() => Err(database_away()),
            Standing::Valid | Standing::Lost if places.enter() => Ok(EntryAttempt::Entered),
            Standing::Valid | Standing::Lost => Ok(EntryAttempt::Full(None)),
        })
    }
}

impl Drop for LimiterPlace {
    fn drop(&mut self) {
        self.0.keeper.change(Places::leave);
    }
}

fn database_away() -> Error {
    Error::with_info(codes::DEFENSE_REJECTED, "Limiter without the database of its cluster")
}
