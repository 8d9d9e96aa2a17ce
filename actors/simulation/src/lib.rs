//! A cluster in one seed: nodes that run a service as in production, in one process and in virtual time.
//!
//! A [`Cluster`] has nodes, each with a thread, a runtime and clocks of its own, of which one runs at a time. They
//! share a journal, and call each other over a network that is in the place of a server of NATS. Faults follow from the
//! seed: nodes are killed, stopped and started again, clocks jump, the journal is slow, fails, or loses an answer, and
//! the network loses connections and messages. One seed has one [history](RunFigures::history). [`simulate`] runs many,
//! and makes one that fails smaller.
//!
//! The [guide] begins with a service that loses money.
//!
//! Effects of an application outside of the cluster, such as at a bank, are a value that its nodes share and that no
//! kill ends; a test compares it with the requests after [`heal`](Cluster::heal).
//!
//! ```
//! use std::time::Duration;
//! use asyncsteps_simulation::{Cluster, Faults};
//!
//! let mut cluster = Cluster::seeded(7);
//! for name in ["one", "two"] {
//!     cluster.node(name, async |node| {
//!         // an executor and `Durable::new(node.journal())` in a test of a service
//!         node.journal()
//!     });
//! }
//! cluster.faults(Faults::all());
//! cluster.run_for(Duration::from_secs(60));
//! cluster.heal();
//! cluster.run_for(Duration::from_secs(60));
//! println!("{}", cluster.figures());
//! ```
//!
//! - `cluster.rs`: which node runs, and the faults; `machine.rs`: the thread of a node
//! - `node.rs`: the state of a node that is kept while it is down; `processor.rs`: where its thread
//!   runs
//! - `context.rs`: what a node receives; `disk.rs`: its journal, `locks.rs`: locks of all nodes; `faults.rs`,
//!   `figures.rs`, `history.rs`
//! - `wall.rs`: times of day
//! - `network.rs`: the server of NATS; `connection.rs`: the connection of a node
//! - `simulate.rs`: runs of many seeds; `shrink.rs`: a failing run made smaller; `repeat.rs`: how it is printed
//!
//! A node has one arbiter: threads of a process are not simulated, nor is what a node does without the journal and the
//! fabric that it receives. A drop runs when a node is killed, and reaches nothing outside.
#![forbid(unsafe_code)]

#[doc = include_str!("docs/cluster.md")]
pub mod guide {}

mod cluster;
mod connection;
mod context;
mod disk;
mod faults;
mod figures;
mod history;
mod locks;
mod machine;
mod network;
mod node;
mod processor;
mod repeat;
mod shrink;
mod simulate;
mod wall;

pub use asyncsteps_core::sim::Random;
pub use cluster::Cluster;
pub use context::NodeContext;
pub use disk::Disk;
pub use faults::{FaultKind, Faults};
pub use figures::{RunFigures, Strikes};
pub use simulate::simulate;
