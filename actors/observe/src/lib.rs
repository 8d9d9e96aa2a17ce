//! What shows an executor to people and tools.
//!
//! - [`admin`]: what runs and why it waits, as data and as an interface
//! - [`health`]: liveness and readiness over HTTP
#![cfg_attr(feature = "log", doc = "- [`init()`], [`log()`]: a log that never holds up requests")]
#![cfg_attr(feature = "metrics", doc = "- [`metrics`](mod@metrics): figures for Prometheus")]
#![cfg_attr(feature = "otel", doc = "- [`otlp()`]: sampled requests as spans of OpenTelemetry")]
//! - [`Locks`]: the locks that admin, metrics and the console show
//!
//! What they read is counted and kept by the executor: see [`asyncsteps_executor::observe`].
//!
//! Features: `log`, `metrics`, `otel`.
#![forbid(unsafe_code)]

pub mod admin;
pub mod health;
mod locks;
#[cfg(feature = "log")]
mod log;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(feature = "otel")]
mod otlp;

pub use locks::{BusyKey, LockDetail, Locks, WatchedLock};
#[cfg(feature = "log")]
pub use log::{Format, Log, LogError, LogGuard, init, log};
#[cfg(feature = "otel")]
pub use otlp::{Otlp, OtlpError, OtlpExporter, OtlpGuard, otlp};
