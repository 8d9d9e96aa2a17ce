//! Locks and limits of AsyncSteps services on several machines, in a PostgreSQL database.
//!
//! A [`Cluster`] is this process as a node. Its locks are used as the locks of one process, and each
//! section has a fencing token, which the targets of its writes can check.
//!
//! ```no_run
//! use asyncsteps_core::Template;
//! use asyncsteps_cluster::{Cluster, Config, sql};
//!
//! # async fn f() -> Result<(), Box<dyn std::error::Error>> {
//! let cluster = Cluster::connect("postgres://shop@db/shop", Config::default()).await?;
//! let stock = cluster.mutex("stock");
//! let order = Template::build(|asi| {
//!     let held = stock.clone();
//!     asi.run(async move |()| {
//!         if let Some(fence) = held.fence() {
//!             let values = sql::fenced(&fence); // for the transaction that takes from the stock
//!         }
//!         Ok(())
//!     })
//!     .locked(&stock);
//! });
//! # Ok(()) }
//! ```
//!
//! # Contents
//!
//! - [`guide`]: what is guaranteed, and what is not
//! - [`Cluster`], [`Config`]: joining a cluster and leaving it
//! - [`Mutex`], [`LockGuard`]: locks; [`LOCK_LOST`]: what ends a section
//! - [`Throttle`], [`Rate`]: entries per period; [`Limiter`], [`Limits`]: sections at once as well
//! - [`FencingToken`], [`fences`]: tokens; [`sql`]: checking them in a database; [`FenceGuard`]: in memory
#![forbid(unsafe_code)]

mod cluster;
mod config;
mod error;
mod fence_guard;
mod hold;
mod keys;
mod lease_term;
mod limiter;
mod mutex;
mod node;
mod notices;
mod shares;
pub mod sql;
pub mod store;
mod throttle;

#[doc = include_str!("docs/cluster.md")]
pub mod guide {}

pub use asyncsteps_actors::sync::{FencingToken, fences};
pub use cluster::Cluster;
pub use config::Config;
pub use error::{Cause, Error};
pub use fence_guard::{FenceGuard, StaleFence};
pub use lease_term::LOCK_LOST;
pub use limiter::{Limiter, Limits};
pub use mutex::{LockGuard, Mutex};
pub use throttle::{Counting, OnDisconnect, Rate, Throttle};
