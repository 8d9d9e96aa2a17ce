//! A console in the browser: what runs in an executor, why it waits, and where the time went.
//!
//! ```
//! use asyncsteps_actors::sync::Mutex;
//! use asyncsteps_console::Console;
//! use asyncsteps_executor::Executor;
//! use asyncsteps_executor::observe::Locks;
//! use asyncsteps_executor::transport::http::{Server, service};
//!
//! let stock = Mutex::named("stock", Default::default());
//! let executor = Executor::builder().build()?;
//! let console = Console::new(&executor, Locks::new().mutex(&stock));
//! // GET /console, beside the functions
//! let server = Server::new(service("/ftn/", executor)).fallback(console.service());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The page shows rates, percentiles and errors, the flows in flight and what each one waits for,
//! requests that were slow or failed, locks with their queues, and functions. A request opens as a
//! waterfall of its steps, which grows while it runs; one in flight can be cancelled. Requests that are
//! over are those that the executor keeps
//! ([`Builder::record`](asyncsteps_executor::Builder::record)).
//!
//! # Who sees it
//!
//! A console tells users, texts of errors and source places, and ends requests. Unless a
//! [token](Console::token) is set, it answers only peers on the loopback that name it `localhost` or by
//! a loopback address, and that no proxy says to have forwarded. A proxy on the same machine that says
//! nothing of it is such a peer: behind one, set a token, or do not forward `/console`. With a token,
//! everyone who has it sees the console; the page asks for it, and keeps it until the tab is closed.
//!
//! # What it costs
//!
//! Nothing while no page is open. All open pages together cost one snapshot a second, with at most 200
//! flows and 100 requests.
#![forbid(unsafe_code)]

mod access;
mod body;
mod live;
mod page;
mod service;
mod snapshot;

use std::fmt;
use std::sync::Arc;

use asyncsteps_executor::Executor;
use asyncsteps_executor::admin::Inspector;
use asyncsteps_executor::observe::Locks;

pub use body::ConsoleBody;
pub use service::ConsoleService;

use access::Access;
use live::Live;

/// The console of an executor. Cheap to clone; clones share their snapshots.
#[derive(Clone)]
pub struct Console {
    live: Arc<Live>,
    access: Arc<Access>,
}

impl Console {
    /// The console of this executor and these locks, for the loopback.
    #[must_use]
    pub fn new(executor: &Executor, locks: Locks) -> Self {
        let live = Live::new(Inspector::new(executor, locks));
        Self { live: Arc::new(live), access: Arc::new(Access::Loopback) }
    }

    /// Answers everyone who has this token, over any address, and no one else. It should be as hard to
    /// guess as a key: 32 random characters. With an empty one the console answers no one.
    #[must_use]
    pub fn token(self, token: impl Into<String>) -> Self {
        Self { access: Arc::new(Access::Token(token.into())), ..self }
    }

    /// A service that answers requests below `/console`, and anything else with 404: for
    /// [`Server::fallback`](asyncsteps_executor::transport::http::Server::fallback), or as a route of a
    /// router. It finds the address of the peer in the extensions of a request, as a
    /// [`SocketAddr`](std::net::SocketAddr); it must be called on a tokio runtime.
    #[must_use]
    pub fn service(&self) -> ConsoleService {
        ConsoleService(self.clone())
    }
}

impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console").field("access", &self.access).finish_non_exhaustive()
    }
}
