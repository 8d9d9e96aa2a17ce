//! The shop behind HTTP and WebSocket: its executor, its server, its graceful end.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use actix_web::{App, HttpServer};
use asyncsteps_console::Console;
use asyncsteps_executor::iface::{Definition, LoadError, Loader, NameError, Source};
use asyncsteps_executor::metrics::Metrics;
use asyncsteps_executor::observe::{Locks, OtlpError, OtlpGuard, Sampling, otlp};
use asyncsteps_executor::transport::http::{
    self, CertificateError, Server, ServerLimits, tls_from_pem,
};
use asyncsteps_executor::{Builder, Closed, ConfigError, Executor, builtin};
use asyncsteps_fabric::CallError;
use asyncsteps_fabric::nats::NatsError;

use crate::bank::{self, Bank, BankLink, RemoteBank};
use crate::config::{Config, Front};
use crate::interface::{self, is_read};
use crate::node::Node;
use crate::pages::Pages;
use crate::shop::Shop;
use crate::store::{Store, StoreError};
use crate::till::Till;

/// Why the demo cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The database cannot be opened.
    #[error("cannot open the database")]
    Store(#[from] StoreError),
    /// An interface definition is wrong.
    #[error("cannot load an interface")]
    Interface(#[from] LoadError),
    /// The name of an interface is wrong.
    #[error("cannot name an interface")]
    Name(#[from] NameError),
    /// The executor cannot be built.
    #[error("cannot build the executor")]
    Executor(#[from] ConfigError),
    /// The certificate or its key cannot be used.
    #[error("cannot set up TLS")]
    Tls(#[from] CertificateError),
    /// Traces cannot be sent.
    #[error("cannot send traces")]
    Traces(#[from] OtlpError),
    /// The node cannot join the others.
    #[error("cannot join the nodes")]
    Join(#[from] NatsError),
    /// The other nodes cannot be told what this one serves.
    #[error("cannot serve the other nodes")]
    Serve(#[from] CallError),
    /// The server cannot be started, or ended with an error.
    #[error("the server failed")]
    Server(#[from] std::io::Error),
}

/// Serves the shop on `listener` until `shutdown` is ready,
/// then closes gracefully; gives what became of the requests that were in flight. `shutdown` is
/// polled once the database is open and the server listens.
///
/// # Errors
/// [`RunError`] if the database, an interface, the certificate or the server fails.
///
/// # Panics
/// Outside of an actix system.
pub async fn run(
    listener: TcpListener,
    config: Config,
    shutdown: impl Future<Output = ()>,
) -> Result<Closed, RunError> {
    // the last traces are sent when everything else is over
    let node = Node::join(&config.node).await?;
    let Opened { executor, till, pages, traces: _traces } = open(&config, &node)?;
    let serves = node.serve(&executor, config.workers).await?;
    let payments = config.node.hosts_shop().then(|| {
        let till = till.clone();
        actix_rt::spawn(till.look_after_payments())
    });
    let shutdown = async {
        tokio::select! {
            () = shutdown => {}
            () = node.drain_ordered() => {}
        }
        if let Some(serves) = serves {
            serves.drain(config.grace()).await;
        }
    };
    let service = service(&executor, &config, listener.local_addr()?);
    let closed = match config.front {
        Front::Own => serve(service, pages, listener, &config, shutdown).await,
        Front::ActixWeb => {
            serve_mounted(service, pages, &executor, listener, &config, shutdown).await
        }
    };
    if let Some(payments) = payments {
        payments.abort();
    }
    node.leave().await;
    if let Err(error) = till.leave().await {
        tracing::warn!(%error, "the other processes do not know that this one ends");
    }
    closed
}

/// The functions at `/ftn/`.
fn service(executor: &Executor, config: &Config, address: SocketAddr) -> http::Service {
    let service = http::service("/ftn/", executor.clone()).get_calls(is_read);
    let service = if config.list { service.publish_catalog() } else { service };
    let service = match config.cors() {
        Some(cors) => service.cors(cors),
        None => service,
    };
    match config.hosts(address) {
        Some(hosts) => service.allowed_hosts(hosts),
        None => service,
    }
}

/// Serves the functions, and the pages beside them.
async fn serve(
    service: http::Service,
    pages: Pages,
    listener: TcpListener,
    config: &Config,
    shutdown: impl Future<Output = ()>,
) -> Result<Closed, RunError> {
    let limits = ServerLimits {
        head_timeout: config.head_timeout(),
        keep_alive: config.keep_alive(),
        ..ServerLimits::default()
    };
    let server = Server::new(service).fallback(pages.service());
    let server = server.workers(config.workers).limits(limits).grace(config.grace());
    let server = match config.tls_cert.as_ref().zip(config.tls_key.as_ref()) {
        Some((cert, key)) => server.listen_rustls(listener, tls_from_pem(cert, key)?)?,
        None => server.listen(listener)?,
    };
    Ok(server.run_until(shutdown).await?)
}

/// Serves an actix-web application that mounts the service, and the pages beside it.
async fn serve_mounted(
    service: http::Service,
    pages: Pages,
    executor: &Executor,
    listener: TcpListener,
    config: &Config,
    shutdown: impl Future<Output = ()>,
) -> Result<Closed, RunError> {
    let app = move || {
        let app = App::new().service(service.clone());
        Pages::PATHS.iter().fold(app, |app, path| app.route(path, http::page(pages.service())))
    };
    let server = HttpServer::new(app)
        .workers(config.workers.get())
        .tcp_nodelay(true)
        .h1_allow_half_closed(false)
        .client_request_timeout(config.head_timeout())
        .keep_alive(config.keep_alive())
        .disable_signals()
        .listen(listener)?
        .run();
    let handle = server.handle();
    let stopped = async {
        shutdown.await;
        let closed = executor.close(config.grace()).await;
        handle.stop(true).await;
        closed
    };
    let (ended, closed) = tokio::join!(server, stopped);
    ended?;
    Ok(closed)
}

/// The executor with everything the demo hosts; also for applications and tests that bring their
/// own transport.
///
/// # Errors
/// [`RunError`] if the database or an interface fails.
///
/// # Panics
/// Outside of an actix arbiter.
pub fn executor(config: &Config) -> Result<Executor, RunError> {
    let Opened { executor, till, .. } = open(config, &Node::alone())?;
    actix_rt::spawn(till.look_after_payments());
    Ok(executor)
}

/// The executor, and what is done around it.
struct Opened {
    executor: Executor,
    /// Where orders are paid.
    till: Till,
    pages: Pages,
    /// Sends traces, if they are wanted.
    traces: Option<OtlpGuard>,
}

fn open(config: &Config, node: &Node) -> Result<Opened, RunError> {
    let store = Store::open(&config.data)?;
    let database = store.clone();
    let bank = Bank::new(store.clone(), config.bank_credit, config.bank_line());
    let till = Till::new(store.clone(), bank_of_shop(config, node, &bank)?);
    let shop = Shop::new(store, till.clone());
    let locks = shop.locks().into_iter().fold(Locks::new().mutex(&till.calls), Locks::mutex);
    let ping = builtin::ping();
    let mut loader =
        Loader::new([Source::builtin(), interface::definitions(), bank::definitions()]);
    let mut load =
        |name: &str| -> Result<Arc<Definition>, RunError> { Ok(loader.load(&name.parse()?)?) };
    let (builder, traces) = traced(Executor::builder(), config)?;
    let builder = builder
        .request_timeout(config.request_timeout())
        .interface(load("futoin.ping:1.0")?, |functions| {
            functions.add("ping", &ping);
        })
        .interface(load("futoin.anonping:1.0")?, |functions| {
            functions.add("ping", &ping);
        });
    let builder = match config.node.hosts_shop() {
        true => builder.service(load("demo.shop:1.0")?, shop, Shop::define),
        false => builder,
    };
    let builder = match config.node.hosts_bank() && !config.without_bank {
        true => builder.service(load("demo.bank:1.0")?, bank, Bank::define),
        false => builder,
    };
    let executor = node.connect(builder).build()?;
    let console = (!config.no_console).then(|| {
        let console = Console::new(&executor, locks.clone());
        config.console_token.iter().fold(console, Console::token)
    });
    let metrics = Metrics::with_locks(&executor, locks);
    metrics.register(|registry| database.register(registry));
    let pages = Pages::new(&executor, metrics, console);
    Ok(Opened { executor, till, pages, traces })
}

/// Where the shop is paid: here, on another node, or not at all.
fn bank_of_shop(config: &Config, node: &Node, bank: &Bank) -> Result<Option<BankLink>, RunError> {
    if config.without_bank {
        return Ok(None);
    }
    match node.client() {
        Some(client) if !config.node.hosts_bank() => {
            Ok(Some(BankLink::Node(RemoteBank::new(client)?)))
        }
        _ => Ok(Some(bank.clone().into())),
    }
}

/// The same with traces, if there is a collector for them.
fn traced(builder: Builder, config: &Config) -> Result<(Builder, Option<OtlpGuard>), RunError> {
    let builder = builder.sample(Sampling::share(config.trace_share));
    // a variable of the environment may be empty
    let collector = config.otlp.as_ref().filter(|collector| !collector.is_empty());
    let Some(collector) = collector else { return Ok((builder, None)) };
    let (exporter, guard) = otlp().endpoint(collector).service_name("executor-demo").start()?;
    Ok((builder.export(exporter), Some(guard)))
}
