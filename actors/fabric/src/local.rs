//! Calls within a process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use asyncsteps_actors::drain::{Drain, DrainGuard, Drained};
use asyncsteps_executor::Executor;
use asyncsteps_executor::iface::FunctionName;
use futures_util::future::BoxFuture;
use parking_lot::RwLock;
use tokio::sync::Notify;

use crate::call::{Call, Response};
use crate::call_error::CallError;
use crate::endpoint::Endpoint;
use crate::fabric::{Capabilities, Fabric};
use crate::known_interfaces::KnownInterfaces;
use crate::live_nodes::LiveNodes;
use crate::node::NodeInfo;
use crate::pending::{Pending, wait};
use crate::serve_guard::{CANCEL_GRACE, ServeGuard, Serving};

/// Connects executors of one process: calls are no bytes, and run on the arbiter that makes them.
/// Cloning shares.
///
/// Members that serve the same interface take turns. It stands in for a fabric between machines in tests and in
/// services that run as one process.
#[derive(Clone, Debug, Default)]
pub struct LocalFabric {
    members: Arc<RwLock<Vec<Arc<LocalMember>>>>,
    /// Whose turn it is.
    turn: Arc<AtomicUsize>,
    known: Arc<KnownInterfaces>,
}

/// An executor that serves.
#[derive(derive_more::Debug)]
struct LocalMember {
    name: String,
    endpoints: Vec<Endpoint>,
    executor: Executor,
    #[debug(skip)]
    drain: Arc<Drain>,
    /// Notified when the calls in flight are cancelled.
    #[debug(skip)]
    cancelled: Notify,
}

impl LocalFabric {
    /// Without any executor.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One that serves a function, and takes calls.
    fn member(&self, call: &Call) -> Option<(Arc<LocalMember>, DrainGuard)> {
        let members = self.members.read();
        let suits = |member: &&Arc<LocalMember>| {
            member.serves(call.function())
                && call.node.as_ref().is_none_or(|node| node.as_str() == member.name)
        };
        let count = members.iter().filter(suits).count();
        // the turn of a member alone is not counted, because arbiters would share the counter
        let turn = if count > 1 { self.turn.fetch_add(1, Ordering::Relaxed) % count } else { 0 };
        let in_turn = members.iter().filter(suits).cycle().skip(turn).take(count);
        in_turn.filter_map(|member| Some((Arc::clone(member), member.drain.admit()?))).next()
    }
}

impl Fabric for LocalFabric {
    fn call(&self, call: Call) -> Pending<'_, Result<Response, CallError>> {
        Box::pin(async move {
            let member = self.member(&call);
            let Call { invocation, time_limit, node, .. } = call;
            let Some((member, mut entered)) = member else {
                return Err(self.known.not_served(&invocation.function).of_node(node.as_ref()));
            };
            let called = member.executor.invoke(invocation);
            let result = tokio::select! {
                biased;
                result = called => result.map(Response::new).map_err(|error| CallError::of_flow(&error)),
                () = wait(time_limit) => Err(CallError::lost("no answer in time")),
                () = member.cancelled.notified() => return Err(CallError::cancelled()),
            };
            entered.finish();
            result
        })
    }

    fn serve(
        &self,
        endpoints: Vec<Endpoint>,
        executor: Executor,
    ) -> Pending<'_, Result<ServeGuard, CallError>> {
        Box::pin(async move {
            endpoints.iter().for_each(|it| self.known.add(it.interface().iface()));
            let mut members = self.members.write();
            let number = self.turn.fetch_add(1, Ordering::Relaxed);
            let member = Arc::new(LocalMember {
                name: format!("local-{number}"),
                endpoints,
                executor,
                drain: Arc::default(),
                cancelled: Notify::new(),
            });
            members.push(Arc::clone(&member));
            Ok(ServeGuard::new(Membership { fabric: self.clone(), member }))
        })
    }

    fn nodes(&self) -> BoxFuture<'_, Result<Vec<NodeInfo>, CallError>> {
        let members = self.members.read();
        let nodes = members.iter().map(|member| member.info()).collect();
        Box::pin(async move { Ok(nodes) })
    }

    fn live_nodes(&self) -> LiveNodes {
        let members = self.members.read();
        LiveNodes::of(&members.iter().map(|member| member.info()).collect::<Vec<_>>())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::in_process()
    }
}

impl LocalMember {
    fn serves(&self, function: &FunctionName) -> bool {
        self.endpoints.iter().any(|endpoint| endpoint.serves(function))
            && !self.drain.is_closing()
            && !self.executor.is_closing()
    }

    fn info(&self) -> NodeInfo {
        let interfaces = self.endpoints.iter().map(|it| it.interface().to_string()).collect();
        NodeInfo {
            node: self.name.clone(),
            interfaces,
            in_flight: self.drain.count(),
            is_draining: self.drain.is_closing(),
            has_other_secret: false,
        }
    }
}

/// A member as long as this is there.
struct Membership {
    fabric: LocalFabric,
    member: Arc<LocalMember>,
}

impl Serving for Membership {
    fn drain(self: Box<Self>, grace: Duration) -> BoxFuture<'static, Drained> {
        Box::pin(async move {
            let drain = &self.member.drain;
            drain.close();
            if tokio::time::timeout(grace, drain.idle()).await.is_err() {
                self.member.cancelled.notify_waiters();
                // a caller may hold a call that it does not wait for
                let _ = tokio::time::timeout(CANCEL_GRACE, drain.idle()).await;
            }
            drain.ended()
        })
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.member.drain.close();
        self.member.cancelled.notify_waiters();
        let members = &self.fabric.members;
        let mut members = members.write();
        members.retain(|member| !Arc::ptr_eq(member, &self.member));
    }
}
