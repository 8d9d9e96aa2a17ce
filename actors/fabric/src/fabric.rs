//! The fabric that connects nodes.

use asyncsteps_executor::Executor;
use futures_util::future::BoxFuture;

use crate::call::{Call, Response};
use crate::call_error::CallError;
use crate::endpoint::Endpoint;
use crate::live_nodes::LiveNodes;
use crate::node::NodeInfo;
use crate::pending::Pending;
use crate::serve_guard::ServeGuard;

/// Connects nodes, of one process or of many.
///
/// The futures run on the thread that makes them: a call within the process goes straight to its
/// function, without a queue between.
pub trait Fabric: Send + Sync + 'static {
    /// Calls a function once, on one of the nodes that serve its version.
    ///
    /// A call without a [time limit](Call::within) has the limit of the flow that makes it, which is asked when the
    /// future is made, or else the limit of the fabric.
    ///
    /// # Errors
    /// [`CallError`], with the outcome as far as it is known.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the call, as far as the node that carries it out can be
    /// notified.
    fn call(&self, call: Call) -> Pending<'_, Result<Response, CallError>>;

    /// The same for a call that was placed [on this very node](Call::on_node) and that it carries out
    /// itself, within the process. Returns a call that goes elsewhere.
    ///
    /// # Errors
    /// The call, of another node, or of a function that this one does not serve or has too many calls of.
    fn call_here(&self, call: Call) -> Result<Pending<'_, Result<Response, CallError>>, Box<Call>> {
        Err(Box::new(call))
    }

    /// Makes an executor serve interfaces until the guard is [drained](ServeGuard::drain) or dropped,
    /// or the executor [closes](Executor::close). Calls are routed here from the time the future is
    /// ready.
    ///
    /// # Errors
    /// [`CallError`] if nodes cannot be notified of it.
    fn serve(
        &self,
        endpoints: Vec<Endpoint>,
        executor: Executor,
    ) -> Pending<'_, Result<ServeGuard, CallError>>;

    /// The nodes that can be reached and serve something, by their names. Any thread may wait for the future.
    ///
    /// # Errors
    /// [`CallError`] if they cannot be asked.
    fn nodes(&self) -> BoxFuture<'_, Result<Vec<NodeInfo>, CallError>>;

    /// The nodes that were there not long ago, for [placement](crate::Placement); it does not wait. None
    /// unless the fabric knows, and calls go to any node then.
    fn live_nodes(&self) -> LiveNodes {
        LiveNodes::default()
    }

    /// The capabilities of the fabric.
    fn capabilities(&self) -> Capabilities;
}

/// The capabilities of a [`Fabric`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// The largest message of a call in bytes; `None` if calls are no bytes.
    pub max_message: Option<usize>,
}

impl Capabilities {
    /// Of a fabric whose calls are no bytes.
    #[must_use]
    pub const fn in_process() -> Self {
        Self { max_message: None }
    }

    /// The limits of a fabric with messages of at most `max_message` bytes.
    #[must_use]
    pub const fn of_messages(max_message: usize) -> Self {
        Self { max_message: Some(max_message) }
    }
}

const _: () = {
    const fn object_safe(_: Option<&dyn Fabric>) {}
    object_safe(None);
};
