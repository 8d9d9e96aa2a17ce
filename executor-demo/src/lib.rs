//! A shop on AsyncSteps: what a service of this framework looks like.
//!
//! In reading order:
//! - [`shop`]: the business logic, as templates of steps
//! - [`bank`]: who is paid
//! - [`shelf`]: what orders in flight have reserved
//! - [`store`]: what is kept, in SQLite
//! - [`server`]: the executor of these functions behind HTTP and WebSocket
//! - [`config`]: the command line of the program
#![forbid(unsafe_code)]

pub mod bank;
pub mod config;
pub mod server;
pub mod shelf;
pub mod shop;
pub mod store;

pub use config::{Config, LogFormat};
pub use server::{RunError, executor, run};
