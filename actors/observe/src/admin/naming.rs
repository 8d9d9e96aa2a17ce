//! Flows by the requests that they belong to.

use std::collections::{HashMap, HashSet};

use asyncsteps_actors::sync::LockOwner;
use asyncsteps_core::{FlowId, Identity};

use super::locks::Owner;
use asyncsteps_executor::{Executor, RequestOfFlow};

/// The requests of flows that hold locks or wait for them.
pub(super) struct Names(HashMap<FlowId, RequestOfFlow>);

impl Names {
    /// Finds the requests of these flows.
    pub(super) async fn of(executor: &Executor, flows: HashSet<FlowId>) -> Self {
        Self(executor.requests_of(flows).await)
    }

    /// A flow or branch as it is shown.
    pub(super) fn flow(&self, Identity { flow, branch }: Identity) -> Owner {
        let request = self.0.get(&flow);
        Owner {
            flow: Some(flow.number()),
            branch,
            request: request.map(|request| request.number).filter(|number| *number > 0),
            function: request.map(|request| request.function.as_str().to_owned()),
            user: request.and_then(|request| request.user.clone()),
        }
    }

    pub(super) fn owner(&self, owner: LockOwner) -> Owner {
        owner.flow().map_or_else(Owner::default, |identity| self.flow(identity))
    }
}
