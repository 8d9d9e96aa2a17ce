//! A console in the browser: what runs in an executor, why it waits, and where the time went.
//!
//! ```
//! use asyncsteps_actors::sync::Mutex;
//! use asyncsteps_console::Console;
//! use asyncsteps_executor::Executor;
//! use asyncsteps_observe::Locks;
//! use asyncsteps_transport::http::{Server, service};
//!
//! let stock = Mutex::named("stock", Default::default());
//! let executor = Executor::builder().build()?;
//! let console = Console::new(&executor, Locks::new().mutex(&stock));
//! // GET /console, beside the functions
//! let server = Server::new(service("/ftn/", executor)).page("/console", console.service());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | view | what it shows |
//! |---|---|
//! | overview | readiness, rates, percentiles and errors of the last two minutes, at which steps requests are |
//! | flows | the requests in flight: at which step each one is, what that awaits, who holds it up, what it holds itself; a durable request and the call that waits for it are one |
//! | requests | ended requests that the executor keeps ([`Builder::record`](asyncsteps_executor::Builder::record)) |
//! | refused | the requests that did not get to a function, and their rates by reason |
//! | locks | who waits for whom, as a graph with cycles in red; holders, queues and waits of each lock |
//! | functions | a heat map of the times of each function over the last five minutes, percentiles, errors; the plan of a function, with what runs in each step |
//! | durable | the requests of a [journal](Console::durable) by state, uid, key or user: how each ended, or until when it waits and why; what is recorded of it, and what an operator can do |
//! | entities | the entities of this process with their nodes, queues and last calls |
//! | nodes | the nodes of a [fabric](Console::nodes), what each serves, and how many calls it has |
//!
//! A request opens as a waterfall of its steps with their source places, which grows while it runs; one
//! in flight can be cancelled. The key `?` lists the keys.
//!
//! # Who sees it
//!
//! A console shows users, texts of errors and source places, and ends requests. Unless a
//! [token](Console::token) is set, it answers only peers on the loopback that name it `localhost` or by
//! a loopback address, and that no proxy says to have forwarded. A proxy on the same machine that says
//! nothing of it is such a peer: behind one, set a token, or do not forward `/console`. With a token,
//! everyone who has it sees the console; the page asks for it, and keeps it until the tab is closed.
//!
//! Requests from pages of other sites are refused with 403: requests whose `Origin` differs from their
//! own `Host`, or whose `Sec-Fetch-Site` is `cross-site` or `same-site`. A proxy has to pass `Host`
//! on.
//!
//! # What it costs
//!
//! One look at the counts a second while no page is open. All open pages, 32 at the most, together cost one snapshot a second; one
//! more ends the oldest. A page gets snapshots for 30 seconds and asks again. A snapshot is bounded
//! whatever is in flight: the oldest 200 flows, the last 100 requests and 50 refused ones, and the
//! longest queues. A filter by function or cause, and a plan, look at all flows, for one
//! request at a time; eight more wait, and others are answered with 503. The nodes, the first 200 by name,
//! are asked once a second at the most, while a page shows them. The figures of each of the last five minutes' seconds
//! are kept for the curves, 3 MB at the most: a console that is made on a runtime takes them from then on.
#![forbid(unsafe_code)]

mod access;
mod body;
mod bounds;
mod durable;
mod entities;
mod history;
mod live;
mod nodes;
mod others;
mod page;
mod search;
mod service;
mod site;
mod snapshot;

use std::sync::Arc;

use asyncsteps_durable::Durable;
use asyncsteps_executor::Executor;
use asyncsteps_fabric::Fabric;
use asyncsteps_observe::Locks;
use asyncsteps_observe::admin::Inspector;

pub use body::ConsoleBody;
pub use service::ConsoleService;

use access::Access;
use live::Live;
use nodes::Nodes;
use others::ConsoleSources;

/// The console of an executor. Cheap to clone; clones share their snapshots.
#[derive(Clone, derive_more::Debug)]
pub struct Console {
    #[debug(skip)]
    live: Arc<Live>,
    access: Arc<Access>,
}

impl Console {
    /// The console of this executor and these locks, for the loopback.
    #[must_use]
    pub fn new(executor: &Executor, locks: Locks) -> Self {
        let live = Live::new(Inspector::new(executor, locks), ConsoleSources::default());
        Self { live: Arc::new(live), access: Arc::new(Access::Loopback) }
    }

    /// The same with a view of the nodes of this fabric; without one the page has no such view. To be said
    /// before the console is shared.
    #[must_use]
    pub fn nodes(self, fabric: Arc<dyn Fabric>) -> Self {
        let nodes = Some(Arc::new(Nodes::new(fabric)));
        let others = ConsoleSources { nodes, ..self.live.others.clone() };
        self.with(others)
    }

    /// The same with a view of these durable requests, which operators can cancel and resume there; without
    /// them the page has no such view. To be said before the console is shared.
    #[must_use]
    pub fn durable(self, durable: Durable) -> Self {
        let others = ConsoleSources { durable: Some(durable), ..self.live.others.clone() };
        self.with(others)
    }

    fn with(self, others: ConsoleSources) -> Self {
        let live = Live::new(self.live.inspector.clone(), others);
        Self { live: Arc::new(live), ..self }
    }

    /// Answers everyone who has this token, over any address, and no one else. It should be as hard to
    /// guess as a key: 32 random characters. With an empty one the console answers no one.
    #[must_use]
    pub fn token(self, token: impl Into<String>) -> Self {
        Self { access: Arc::new(Access::Token(token.into())), ..self }
    }

    /// A service that answers requests below `/console`, and anything else with 404: for
    /// `Server::page` of `asyncsteps-transport`, or as a route of a router. It finds the address of the peer in the extensions of a request, as a
    /// [`SocketAddr`](std::net::SocketAddr); it must be called on a tokio runtime.
    #[must_use]
    pub fn service(&self) -> ConsoleService {
        ConsoleService(self.clone())
    }
}
