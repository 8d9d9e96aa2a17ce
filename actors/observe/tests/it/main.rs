//! The tests of what shows an executor: one program.

mod admin;
mod health;
#[cfg(feature = "log")]
mod log;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(feature = "metrics")]
mod monitoring;
