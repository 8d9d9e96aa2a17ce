//! Several fabrics behind one, chosen by interface.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_actors::drain::Drained;
use asyncsteps_executor::Executor;
use futures_util::future::{BoxFuture, join_all};

use crate::call::{Call, Response};
use crate::call_error::CallError;
use crate::endpoint::Endpoint;
use crate::fabric::{Capabilities, Fabric};
use crate::node::NodeInfo;
use crate::pending::Pending;
use crate::serve_guard::{ServeGuard, Serving};

/// Several fabrics behind one: each interface is called and served over the one that is set for it.
///
/// ```
/// use std::sync::Arc;
/// use asyncsteps_executor::Executor;
/// use asyncsteps_fabric::{Client, LocalFabric, Routes};
///
/// let (bank, others) = (Arc::new(LocalFabric::new()), Arc::new(LocalFabric::new()));
/// let routes = Routes::new().route("demo.bank", bank).others(others);
/// let shop = Executor::builder().invoker(Client::new(Arc::new(routes))).build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default, derive_more::Debug)]
#[debug(
    "Routes {{ interfaces: {:?}, has_others: {:?} }}",
    self.by_interface.keys(), self.others.is_some()
)]
#[must_use = "a client calls over it"]
pub struct Routes {
    by_interface: BTreeMap<Box<str>, Arc<dyn Fabric>>,
    others: Option<Arc<dyn Fabric>>,
}

impl Routes {
    /// Without any fabric: each call fails with ConnectError.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the fabric of an interface, in all versions; a later one replaces it.
    pub fn route(mut self, iface: impl Into<Box<str>>, fabric: Arc<dyn Fabric>) -> Self {
        self.by_interface.insert(iface.into(), fabric);
        self
    }

    /// Sets the fabric of all other interfaces.
    pub fn others(self, fabric: Arc<dyn Fabric>) -> Self {
        Self { others: Some(fabric), ..self }
    }

    fn fabric(&self, iface: &str) -> Result<&Arc<dyn Fabric>, CallError> {
        let fabric = self.by_interface.get(iface).or(self.others.as_ref());
        fabric.ok_or_else(|| {
            CallError::connect(format!("there is no fabric for {iface}")).not_known()
        })
    }

    /// Each fabric once.
    fn fabrics(&self) -> Vec<&Arc<dyn Fabric>> {
        let mut fabrics: Vec<&Arc<dyn Fabric>> = Vec::new();
        for fabric in self.by_interface.values().chain(&self.others) {
            if !fabrics.iter().any(|other| Arc::ptr_eq(other, fabric)) {
                fabrics.push(fabric);
            }
        }
        fabrics
    }
}

impl Fabric for Routes {
    fn call(&self, call: Call) -> Pending<'_, Result<Response, CallError>> {
        match self.fabric(call.function().iface()) {
            Ok(fabric) => fabric.call(call),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn call_here(&self, call: Call) -> Result<Pending<'_, Result<Response, CallError>>, Box<Call>> {
        match self.fabric(call.function().iface()) {
            Ok(fabric) => fabric.call_here(call),
            Err(_) => Err(Box::new(call)),
        }
    }

    fn serve(
        &self,
        endpoints: Vec<Endpoint>,
        executor: Executor,
    ) -> Pending<'_, Result<ServeGuard, CallError>> {
        Box::pin(async move {
            let mut parts: Vec<(&Arc<dyn Fabric>, Vec<Endpoint>)> = Vec::new();
            for endpoint in endpoints {
                let fabric = self.fabric(endpoint.interface().iface())?;
                match parts.iter_mut().find(|(other, _)| Arc::ptr_eq(other, fabric)) {
                    Some((_, endpoints)) => endpoints.push(endpoint),
                    None => parts.push((fabric, vec![endpoint])),
                }
            }
            let mut guards = Vec::with_capacity(parts.len());
            for (fabric, endpoints) in parts {
                match fabric.serve(endpoints, executor.clone()).await {
                    Ok(guard) => guards.push(guard),
                    Err(error) => {
                        guards.into_iter().for_each(ServeGuard::give_up);
                        return Err(error);
                    }
                }
            }
            Ok(ServeGuard::new(Guards(guards)))
        })
    }

    fn nodes(&self) -> BoxFuture<'_, Result<Vec<NodeInfo>, CallError>> {
        Box::pin(async move {
            let asked = self.fabrics().into_iter().map(|fabric| fabric.nodes());
            let found: Result<Vec<_>, _> = join_all(asked).await.into_iter().collect();
            let mut nodes = found?.concat();
            nodes.sort_by(|a, b| a.node.cmp(&b.node));
            Ok(nodes)
        })
    }

    /// The capabilities that all of them have.
    fn capabilities(&self) -> Capabilities {
        let limits = self.fabrics().into_iter().map(|fabric| fabric.capabilities().max_message);
        match limits.flatten().min() {
            Some(max_message) => Capabilities::of_messages(max_message),
            None => Capabilities::in_process(),
        }
    }
}

/// The guards of serving over several fabrics.
struct Guards(Vec<ServeGuard>);

impl Serving for Guards {
    fn drain(self: Box<Self>, grace: Duration) -> BoxFuture<'static, Drained> {
        Box::pin(async move {
            let drained = join_all(self.0.into_iter().map(|guard| guard.drain(grace))).await;
            drained.into_iter().sum()
        })
    }
}
