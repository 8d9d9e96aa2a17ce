//! The fabric of services elsewhere.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use asyncsteps_core::codes;
use asyncsteps_executor::Executor;
use asyncsteps_executor::iface::{Compatibility, IfaceVer};
use futures_util::future::BoxFuture;
use parking_lot::RwLock;
use tokio::sync::Semaphore;

use super::config::Config;
use super::connector::Connector;
use super::error::HttpError;
use super::post::{HttpClient, Poster, client};
use super::remote::Remote;
use super::service::{RegisteredService, Transport};
use super::socket::ServiceSocket;
use super::url::{ServiceUrl, UrlTransport};
use crate::call::{Call, Response};
use crate::call_error::CallError;
use crate::endpoint::Endpoint;
use crate::fabric::{Capabilities, Fabric};
use crate::node::NodeInfo;
use crate::pending::Pending;
use crate::serve_guard::ServeGuard;
use crate::time_left::time_left;

/// Calls FutoIn services at URLs, see [`http`](super).
///
/// Connections belong to the arbiter whose call opened them, and calls of other arbiters use them too.
/// When an arbiter ends, its connections do.
pub struct HttpFabric {
    config: Config,
    connector: Connector,
    client: HttpClient,
    services: RwLock<HashMap<Box<str>, Arc<RegisteredService>>>,
    calls: Semaphore,
}

impl HttpFabric {
    /// A fabric without services.
    ///
    /// # Errors
    /// [`HttpError`] if an option of the configuration cannot be used.
    pub fn new(config: Config) -> Result<Self, HttpError> {
        config.check()?;
        let connector = Connector::new(&config)?;
        let client = client(connector.clone(), &config);
        let calls = Semaphore::new(config.max_calls.min(Semaphore::MAX_PERMITS));
        Ok(Self { config, connector, client, services: RwLock::default(), calls })
    }

    /// Calls an interface, in this version and each older minor one, at a service; in place of the one that
    /// it was registered with before. Nothing is connected before the first call.
    ///
    /// # Errors
    /// [`HttpError`] if the URL cannot be called, or does not fit the definition.
    pub fn register(&self, interface: IfaceVer, remote: Remote) -> Result<(), HttpError> {
        let url = ServiceUrl::parse(&remote.url)?;
        check_definition(&interface, &remote, &url)?;
        let transport = match url.kind {
            UrlTransport::Http => {
                let poster = Poster::new(self.client.clone(), url.http, &self.config);
                Transport::Http(Box::new(poster))
            }
            UrlTransport::WebSocket => {
                let socket = ServiceSocket::new(self.connector.clone(), url, &self.config);
                Transport::WebSocket(Box::new(socket))
            }
        };
        let name = interface.iface().into();
        let service = Arc::new(RegisteredService {
            endpoint: Endpoint::new(interface),
            credentials: remote.credentials,
            names_user: remote.names_user,
            definition: remote.definition,
            max_message: self.config.max_message,
            transport,
        });
        let mut services = self.services.write();
        services.insert(name, service);
        Ok(())
    }

    /// No longer calls an interface. Calls in flight are finished.
    pub fn unregister(&self, iface: &str) {
        let mut services = self.services.write();
        services.remove(iface);
    }

    fn service(&self, call: &Call) -> Result<Arc<RegisteredService>, CallError> {
        let function = call.function();
        if let Some(node) = &call.node {
            return Err(CallError::connect(format!("{node} is no node here: services have URLs")));
        }
        let services = self.services.read();
        match services.get(function.iface()) {
            Some(service) if service.endpoint.serves(function) => Ok(Arc::clone(service)),
            Some(service) => {
                let (function, version) = (function.as_str(), service.interface());
                let info = format!("{function}: {version} is registered, which does not serve it");
                Err(CallError::connect(info))
            }
            None => {
                let info = format!("no service is registered for {}", function.as_str());
                Err(CallError::connect(info).not_known())
            }
        }
    }
}

impl Fabric for HttpFabric {
    fn call(&self, call: Call) -> Pending<'_, Result<Response, CallError>> {
        let limit = time_left(&call).unwrap_or(self.config.call_timeout);
        Box::pin(async move {
            if limit.is_zero() {
                return Err(CallError::not_made(codes::TIMEOUT, "no time is left for the call"));
            }
            let service = self.service(&call)?;
            let _permit = self.calls.try_acquire().map_err(|_| {
                CallError::not_made(codes::DEFENSE_REJECTED, "too many calls are under way")
            })?;
            service.call(call, limit).await
        })
    }

    /// Always an error: an executor serves over HTTP itself, with its
    /// `Server` of `asyncsteps-transport`.
    fn serve(&self, _: Vec<Endpoint>, _: Executor) -> Pending<'_, Result<ServeGuard, CallError>> {
        let info = "this fabric only calls: serve with a server for HTTP";
        Box::pin(async move { Err(CallError::not_made(codes::INVOKER_ERROR, info)) })
    }

    /// None: services at URLs are no nodes.
    fn nodes(&self) -> BoxFuture<'_, Result<Vec<NodeInfo>, CallError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::of_messages(self.config.max_message)
    }
}

impl fmt::Debug for HttpFabric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let services = self.services.read();
        let services: Vec<_> = services.values().map(|it| it.interface().to_string()).collect();
        f.debug_struct("HttpFabric").field("services", &services).finish_non_exhaustive()
    }
}

/// Whether a definition fits the interface, and the URL fits the definition.
fn check_definition(
    interface: &IfaceVer,
    remote: &Remote,
    url: &ServiceUrl,
) -> Result<(), HttpError> {
    let Some(definition) = &remote.definition else { return Ok(()) };
    let serves = definition.version().serves(interface.version());
    if definition.iface() != interface.iface() || serves != Compatibility::Served {
        let (interface, definition) = (interface.to_string(), definition.id().to_string());
        return Err(HttpError::Definition { interface, definition });
    }
    let lacks = |constraint, instead| {
        Err(HttpError::Channel { interface: interface.to_string(), constraint, instead })
    };
    if definition.requires("SecureChannel") && !url.is_secure {
        return lacks("SecureChannel", "https:// or wss://");
    }
    if definition.requires("BiDirectChannel") && url.kind == UrlTransport::Http {
        return lacks("BiDirectChannel", "ws:// or wss://");
    }
    Ok(())
}
