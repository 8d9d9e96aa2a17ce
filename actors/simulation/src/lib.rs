//! A cluster in one seed: nodes that run a service as in production, in one process and in virtual time.
//!
//! A [`Cluster`] has nodes, each with a thread, a runtime and clocks of its own, of which one runs at a time. They share
//! a journal. What goes wrong follows from the seed: nodes are killed, stopped and started again, clocks jump, and the
//! journal is slow, fails, or loses an answer. One seed has one [history](Cluster::history).
//!
//! What an application has done outside of the cluster, such as at a bank, is a value that its nodes share and that no
//! kill ends; a test compares it with what the requests say after [`heal`](Cluster::heal).
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
//! println!("{}history {:016x}", cluster.figures(), cluster.history());
//! ```
//!
//! - `cluster.rs`: which node runs, and what goes wrong; `machine.rs`: the thread of a node
//! - `context.rs`: what a node is given; `disk.rs`: its journal; `faults.rs`, `history.rs`
//!
//! A node has one arbiter: threads of a process are not simulated, nor is what a node does without the journal that it is
//! given. A drop runs when a node is killed, and reaches nothing outside.
#![forbid(unsafe_code)]

mod cluster;
mod context;
mod disk;
mod faults;
mod figures;
mod history;
mod machine;
mod node;
mod processor;
mod repeat;
mod shrink;
mod simulate;

pub use asyncsteps_core::sim::Random;
pub use cluster::Cluster;
pub use context::NodeContext;
pub use disk::Disk;
pub use faults::{Faults, Kind};
pub use figures::{Figures, Strikes};
pub use simulate::simulate;
