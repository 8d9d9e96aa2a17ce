//! The shop behind HTTP and WebSocket: its executor, its server, its graceful end.

use std::future::pending;
use std::net::TcpListener;
use std::sync::Arc;

use anyhow::Context as _;
use asyncsteps::budget::Budget;
use asyncsteps::console::Console;
use asyncsteps::executor::Closed;
use asyncsteps::health::HealthService;
use asyncsteps::http::{self, Server, ServerLimits, tls_from_pem};
use asyncsteps::iface::{Definition, Loader, Source};
use asyncsteps::metrics::Metrics;
use asyncsteps::observe::{Locks, Retention, Sampling};
use asyncsteps::{Builder, Executor, builtin};
use futures_util::FutureExt as _;

use crate::bank::{self, Bank, BankLink, RemoteBank};
use crate::config::Config;
use crate::interface::{self, is_read, status_of};
use crate::journal::{self, ShopJournal};
use crate::node::ShopNode;
use crate::pages::Pages;
use crate::payments::Payments;
use crate::shelf::Shelf;
use crate::shop::Shop;
use crate::store::Store;
use crate::traces::{self, Traces};

/// Serves the shop on `listener` until `shutdown` is ready, then closes gracefully; returns what
/// became of the requests that were in flight. `shutdown` is polled once the database is open and
/// the server listens.
///
/// # Errors
/// If the database, an interface, the certificate or the server fails.
///
/// # Panics
/// Outside of an actix system.
pub async fn run(
    listener: TcpListener,
    config: Config,
    shutdown: impl Future<Output = ()>,
) -> anyhow::Result<Closed> {
    // the last traces are sent when everything else has ended
    let node = ShopNode::join(&config.node).await.context("cannot join the nodes")?;
    let journal = match &config.journal {
        Some(place) => ShopJournal::open(place, config.waiting_per_caller).await?,
        None => ShopJournal::in_memory(),
    };
    let OpenedShop { executor, payments, pages, traces: _traces } = open(&config, &node, &journal)?;
    let flows = journal.start(&executor).await?;
    // orders that are not durable need the shelf until they have ended
    let is_durable = journal.of_orders().is_some();
    let (first, _last) = if is_durable { (Some(flows), None) } else { (None, Some(flows)) };
    let serves = node.serve(&executor, config.workers).await;
    let serves = serves.context("cannot serve the other nodes")?;
    let _needed = node.needed_by(&executor);
    let looking = payments.clone().filter(|_| config.node.hosts_shop());
    let looking = looking.map(|payments| actix_rt::spawn(payments.look_after_payments()));
    let shutdown = async {
        tokio::select! {
            () = shutdown => {}
            () = node.drain_ordered() => {}
        }
    };
    let grace = config.grace();
    let end = async move {
        if let Some(serves) = serves {
            serves.drain(grace).await;
        }
        if let Some(flows) = first {
            flows.stop().await;
        }
    };
    let hosts = config.hosts(listener.local_addr()?);
    let service = service(&executor, &config, hosts.clone());
    let pages = pages.beside(&service, hosts);
    let closed = serve(service, pages, listener, &config, (shutdown, end)).await;
    if let Some(looking) = looking {
        looking.abort();
    }
    node.leave().await;
    if let Some(payments) = payments
        && let Err(error) = payments.leave().await
    {
        tracing::warn!(%error, "the other processes do not know that this one ends");
    }
    closed
}

/// The functions at `/ftn/`, for these host names or for all.
pub(crate) fn service(
    executor: &Executor,
    config: &Config,
    hosts: Option<Vec<String>>,
) -> http::Service {
    let service = http::service("/ftn/", executor.clone()).get_calls(is_read);
    let service = service.problem_details(status_of);
    let service = service.mcp("/mcp", "executor-demo", env!("CARGO_PKG_VERSION"));
    let service = match config.cors() {
        Some(cors) => service.cors(cors),
        None => service,
    };
    match hosts {
        Some(hosts) => service.allowed_hosts(hosts),
        None => service,
    }
}

/// Serves the functions and the pages until it is asked to stop and what ends before has ended.
async fn serve(
    service: http::Service,
    pages: Pages,
    listener: TcpListener,
    config: &Config,
    (shutdown, end): (impl Future<Output = ()>, impl Future<Output = ()> + 'static),
) -> anyhow::Result<Closed> {
    let limits = ServerLimits {
        head_timeout: config.head_timeout(),
        keep_alive: config.keep_alive(),
        connections: config.connections,
        connections_of_client: config.connections.div_ceil(2),
        ..ServerLimits::default()
    };
    let mut server = Server::new(service).page("/", pages.service());
    for probe in HealthService::PATHS {
        server = server.probe(probe, pages.health());
    }
    let server = server.workers(config.workers).limits(limits);
    let server = server.drain_delay(config.drain_delay()).before_close(end).grace(config.grace());
    let server = match config.tls_cert.as_ref().zip(config.tls_key.as_ref()) {
        Some((cert, key)) => {
            let tls = tls_from_pem(cert, key).context("cannot set up TLS")?;
            server.listen_rustls(listener, tls)?
        }
        None => server.listen(listener)?,
    };
    server.run_until(shutdown).await.context("the server failed")
}

/// The executor with everything the demo hosts; also for applications and tests that bring their
/// own transport. Requests are not durable in it, and it has a shelf of its own.
///
/// # Errors
/// If the database or an interface fails.
///
/// # Panics
/// Outside of an actix arbiter.
pub fn executor(config: &Config) -> anyhow::Result<Executor> {
    let journal = ShopJournal::in_memory();
    let OpenedShop { executor, payments, .. } = open(config, &ShopNode::alone(), &journal)?;
    let node = journal.start(&executor).now_or_never();
    let node = node.context("a journal in memory answers at once")??;
    actix_rt::spawn(async move {
        let _node = node;
        match payments {
            Some(payments) => payments.look_after_payments().await,
            None => pending().await,
        }
    });
    Ok(executor)
}

/// The executor and its surroundings.
struct OpenedShop {
    executor: Executor,
    /// Where orders are paid, if this process has the database.
    payments: Option<Payments>,
    pages: Pages,
    /// Sends traces, if they are wanted.
    traces: Option<Traces>,
}

/// The shop and the bank, on their database.
struct Business {
    store: Store,
    bank: Bank,
    payments: Payments,
    shop: Shop,
    shelf: Shelf,
}

impl Business {
    fn open(config: &Config, node: &ShopNode, is_durable: bool) -> anyhow::Result<Self> {
        let store = Store::open(&config.data).context("cannot open the database")?;
        let store = if is_durable { store.for_durable_requests() } else { store };
        let bank = Bank::new(store.clone(), config.bank_credit, config.bank_link());
        let payments = Payments::new(store.clone(), bank_of_shop(config, node, &bank)?);
        let shop = Shop::new(store.clone(), payments.clone());
        let shelf = Shelf::new(store.clone());
        Ok(Self { store, bank, payments, shop, shelf })
    }

    fn locks(&self) -> Locks {
        let Payments { calls, calls_of_product, .. } = &self.payments;
        Locks::new().mutex(calls).mutex(calls_of_product).mutex(self.shop.keys())
    }

    /// Hosts what this process is to host of it.
    fn host(
        self,
        builder: Builder,
        config: &Config,
        journal: &ShopJournal,
    ) -> anyhow::Result<Builder> {
        let durable = journal.of_orders();
        let builder = match config.node.hosts_shop() {
            true => builder
                .service(load("demo.shop:1.0")?, self.shop, |it| {
                    Shop::define(it, durable, config.answer_within());
                })
                .service(load("demo.shelf:1.0")?, self.shelf, |it| {
                    Shelf::define(it, &journal.durable);
                }),
            false => builder,
        };
        Ok(match config.node.hosts_bank() && !config.without_bank {
            true => {
                builder.service(load("demo.bank:1.0")?, self.bank, |it| Bank::define(it, durable))
            }
            false => builder,
        })
    }
}

fn open(config: &Config, node: &ShopNode, journal: &ShopJournal) -> anyhow::Result<OpenedShop> {
    let durable = journal.of_orders();
    let is_front = config.node.hosts_nothing();
    let business =
        (!is_front).then(|| Business::open(config, node, durable.is_some())).transpose()?;
    let locks = business.as_ref().map_or_else(Locks::new, Business::locks);
    let (payments, store) =
        business.as_ref().map(|it| (it.payments.clone(), it.store.clone())).unzip();
    let ping = builtin::ping();
    let (builder, traces) = traced(Executor::builder(), config)?;
    let builder = config.users()?.into_iter().fold(builder, Builder::security);
    let builder = builder
        .budget(Budget::new(config.budget()))
        .record(Retention { most: config.keep, ..Retention::default() })
        .request_timeout(config.request_timeout())
        .interface(load("futoin.ping:1.0")?, |functions| {
            functions.add("ping", &ping);
        })
        .interface(load("futoin.anonping:1.0")?, |functions| {
            functions.add("ping", &ping);
        });
    let builder = match business {
        Some(business) => business.host(builder, config, journal)?,
        None => builder,
    };
    let builder = match durable {
        Some(durable) => journal::jobs(durable.clone(), config.listen.ip()).host(builder),
        None => builder,
    };
    let executor = node.connect(builder).build().context("cannot build the executor")?;
    let console = (!config.no_console).then(|| {
        let console = Console::new(&executor, locks.clone());
        let console = node.fabric().into_iter().fold(console, Console::nodes);
        let console = durable.into_iter().cloned().fold(console, Console::durable);
        config.console_token.iter().fold(console, Console::token)
    });
    let metrics = Metrics::with_locks(&executor, locks);
    if let Some(store) = store {
        metrics.register(|registry| store.register(registry));
    }
    let pages = Pages::new(&executor, metrics, console);
    Ok(OpenedShop { executor, payments, pages, traces })
}

fn load(name: &str) -> anyhow::Result<Arc<Definition>> {
    let sources = [Source::builtin(), interface::definitions(), bank::definitions()];
    Loader::new(sources).load(&name.parse()?).context("cannot load an interface")
}

/// Where the shop is paid: here, on another node, or not at all.
fn bank_of_shop(config: &Config, node: &ShopNode, bank: &Bank) -> anyhow::Result<Option<BankLink>> {
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
fn traced(builder: Builder, config: &Config) -> anyhow::Result<(Builder, Option<Traces>)> {
    let builder = builder.sample(Sampling::share(config.trace_share));
    // a variable of the environment may be empty
    let collector = config.otlp.as_ref().filter(|collector| !collector.is_empty());
    let Some(collector) = collector else { return Ok((builder, None)) };
    let (builder, traces) = traces::sent_to(collector, builder)?;
    Ok((builder, Some(traces)))
}
