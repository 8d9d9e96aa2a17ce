//! The state of one key of a throttle on this node.

use std::sync::Arc;

use asyncsteps_actors::clock;
use asyncsteps_core::{Error, codes};

use super::options::{Counting, OnDisconnect, Rate};
use super::share::ThrottleShare;
use crate::error::Error as ClusterError;
use crate::node::ClusterNode;
use crate::shares::{EntryAttempt, EntryQueue, Keeper, Standing};
use crate::store::{LockId, Quota};

/// The state that the handles of one key share on this node.
pub(crate) struct ThrottleState {
    id: LockId,
    rate: Rate,
    keeper: Arc<Keeper<ThrottleShare>>,
}

impl ThrottleState {
    pub(crate) fn new(node: Arc<ClusterNode>, id: LockId, rate: Rate) -> Self {
        let quota = Quota::new("rate", &id, rate.max, rate.period);
        let line = EntryQueue::new(rate.max_queue, "Throttle queue limit");
        Self { id, rate, keeper: Arc::new(Keeper::new(node, quota, line)) }
    }

    pub(crate) fn id(&self) -> &LockId {
        &self.id
    }

    pub(crate) fn rate(&self) -> &Rate {
        &self.rate
    }

    /// Enters, after the waiting ones.
    pub(crate) async fn enter(&self) -> Result<(), Error> {
        self.id.check()?;
        let keeper = &self.keeper;
        let poll = keeper.node().config().poll;
        keeper.line().enter(|| keeper.changed(), poll, || self.attempt()).await
    }

    async fn attempt(&self) -> Result<EntryAttempt, Error> {
        match self.rate.counting {
            Counting::Shares(away) => {
                self.keeper.know().await;
                self.keeper.with(|share, standing| self.attempt_by(share, &standing, away))
            }
            Counting::Exact => self.attempt_exact().await,
        }
    }

    fn attempt_by(
        &self,
        share: &mut ThrottleShare,
        standing: &Standing,
        away: OnDisconnect,
    ) -> Result<EntryAttempt, Error> {
        match (standing, away) {
            (Standing::None, _) | (Standing::Lost, OnDisconnect::Reject) => Err(database_away()),
            (Standing::Valid, _) | (Standing::Lost, OnDisconnect::GoOn) => {
                Ok(match share.enter(clock::boottime(), self.rate.period) {
                    Ok(()) => EntryAttempt::Entered,
                    Err(until) => EntryAttempt::Full(until),
                })
            }
        }
    }

    async fn attempt_exact(&self) -> Result<EntryAttempt, Error> {
        let Rate { max, period, .. } = self.rate;
        match self.keeper.node().store().count(&self.id, max, period).await {
            Ok(None) => Ok(EntryAttempt::Entered),
            Ok(Some(left)) => Ok(EntryAttempt::Full(Some(clock::boottime() + left))),
            Err(ClusterError::Unavailable(cause)) => {
                Err(database_away().with_cause(ClusterError::Unavailable(cause)))
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn database_away() -> Error {
    Error::with_info(codes::DEFENSE_REJECTED, "Throttle without the database of its cluster")
}
