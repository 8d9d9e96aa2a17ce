//! A shop on AsyncSteps: an example of a service of this framework.
//!
//! In reading order:
//! - [`shop`]: the business logic; what callers send and get is in `interface.rs`
//! - [`payments`]: how orders are paid, and how that is undone
//! - [`bank`]: a bank with an interface of its own, `demo.bank:1.0`
//! - [`shelf`]: what orders in flight have reserved, an entity for each SKU
//! - [`journal`]: requests and entities that survive a crash
//! - [`jobs`]: the command that looks at durable requests
//! - [`plan`]: the command that prints the plans of functions
//! - [`openapi`]: the command that describes them for other tools; Swagger UI is in `docs.rs`
//! - [`store`]: the stored data, in SQLite
//! - [`server`]: the executor of these functions behind HTTP and WebSocket
//! - [`node`]: several processes that share the work, over NATS
//! - [`config`]: the command line of the program
#![forbid(unsafe_code)]

pub mod bank;
pub mod config;
mod docs;
pub mod interface;
pub mod jobs;
mod jobs_server;
pub mod journal;
mod keeper;
pub mod node;
mod number;
pub mod openapi;
#[cfg(test)]
mod outages;
mod pages;
pub mod payments;
pub mod plan;
pub mod printable;
mod schedules;
pub mod server;
pub mod shelf;
pub mod shop;
pub mod store;
mod traces;

pub use config::{Config, LogFormat};
pub use server::{executor, run};
