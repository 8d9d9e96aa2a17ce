//! The state of one key of a throttle on this node.

use std::sync::Arc;

use asyncsteps_actors::clock;
use asyncsteps_core::{Error, codes};

use super::options::{Counting, OnDisconnect, Rate};
use super::share::Share;
use crate::error::Error as ClusterError;
use crate::node::Node;
use crate::shares::{Attempt, Keeper, Line, Standing};
use crate::store::{LockId, Quota};

/// The state that the handles of one key share on this node.
pub(crate) struct KeyState {
    id: LockId,
    rate: Rate,
    keeper: Arc<Keeper<Share>>,
}

impl KeyState {
    pub(crate) fn new(node: Arc<Node>, id: LockId, rate: Rate) -> Self {
        let quota = Quota::new("rate", &id, rate.max, rate.period);
        let line = Line::new(rate.max_queue, "Throttle queue limit");
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

    async fn attempt(&self) -> Result<Attempt, Error> {
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
        share: &mut Share,
        standing: &Standing,
        away: OnDisconnect,
    ) -> Result<Attempt, Error> {
        match (standing, away) {
            (Standing::None, _) | (Standing::Lost, OnDisconnect::Reject) => Err(database_away()),
            (Standing::Valid, _) | (Standing::Lost, OnDisconnect::GoOn) => {
                Ok(match share.enter(clock::boottime(), self.rate.period) {
                    Ok(()) => Attempt::Entered,
                    Err(until) => Attempt::Full(until),
                })
            }
        }
    }

    async fn attempt_exact(&self) -> Result<Attempt, Error> {
        let Rate { max, period, .. } = self.rate;
        match self.keeper.node().store().count(&self.id, max, period).await {
            Ok(None) => Ok(Attempt::Entered),
            Ok(Some(left)) => Ok(Attempt::Full(Some(clock::boottime() + left))),
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
