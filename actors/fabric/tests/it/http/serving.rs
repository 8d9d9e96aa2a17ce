//! A service behind a URL, as a fabric for the contract.

use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::time::Duration;

use asyncsteps_actors::drain::Drained;
use asyncsteps_executor::Executor;
use asyncsteps_executor::security::Secret;
use asyncsteps_fabric::http::{Config, HttpFabric, Remote};
use asyncsteps_fabric::{
    Call, CallError, Capabilities, Endpoint, Fabric, NodeInfo, Pending, Response, ServeGuard,
    Serving,
};
use asyncsteps_transport::http::{self, Server};
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use crate::contract::nodes::FRONT;

/// The transport of calls.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scheme {
    Http,
    WebSocket,
}

impl Scheme {
    pub(crate) fn url(self, address: SocketAddr) -> String {
        match self {
            Self::Http => format!("http://{address}/ftn/"),
            Self::WebSocket => format!("ws://{address}/ftn/"),
        }
    }
}

/// Calls over an [`HttpFabric`]; serves behind a server of its own, which it registers there.
pub(crate) struct HttpService {
    scheme: Scheme,
    fabric: HttpFabric,
}

impl HttpService {
    pub(crate) fn new(scheme: Scheme) -> Self {
        Self { scheme, fabric: HttpFabric::new(Config::new()).expect("a fabric") }
    }
}

impl Fabric for HttpService {
    fn call(&self, call: Call) -> Pending<'_, Result<Response, CallError>> {
        self.fabric.call(call)
    }

    fn serve(
        &self,
        endpoints: Vec<Endpoint>,
        executor: Executor,
    ) -> Pending<'_, Result<ServeGuard, CallError>> {
        let (address, running) = serve(executor);
        for endpoint in endpoints {
            let remote = Remote::new(self.scheme.url(address))
                .password(FRONT.0, Secret::new(FRONT.1))
                .on_behalf_of_users();
            self.fabric.register(endpoint.interface().clone(), remote).expect("it is a URL");
        }
        Box::pin(async { Ok(ServeGuard::new(running)) })
    }

    fn nodes(&self) -> BoxFuture<'_, Result<Vec<NodeInfo>, CallError>> {
        self.fabric.nodes()
    }

    fn capabilities(&self) -> Capabilities {
        self.fabric.capabilities()
    }
}

/// A server that runs.
pub(crate) struct Running {
    stop: oneshot::Sender<()>,
    ended: actix_rt::task::JoinHandle<()>,
}

/// Serves an executor on a free port.
pub(crate) fn serve(executor: Executor) -> (SocketAddr, Running) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = Server::new(http::service("/ftn/", executor)).workers(NonZeroUsize::MIN);
    let server = server.listen(listener).expect("it listens");
    let (stop, stopped) = oneshot::channel();
    let ended = actix_rt::spawn(async move {
        let stop = async { drop(stopped.await) };
        server.run_until(stop).await.expect("it serves");
    });
    (address, Running { stop, ended })
}

impl Serving for Running {
    fn drain(self: Box<Self>, _: Duration) -> BoxFuture<'static, Drained> {
        Box::pin(async move {
            drop(self.stop);
            self.ended.await.expect("it ends");
            Drained::default()
        })
    }
}
