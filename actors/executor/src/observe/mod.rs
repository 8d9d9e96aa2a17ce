//! What a running system shows: spans of requests and steps, and a log of them.
//!
//! The library reports through `tracing`: a span per request (target `asyncsteps::request`, level
//! INFO), a span per step below it (`asyncsteps::step`, DEBUG), and events. A program chooses what
//! becomes of them: a subscriber of its own, or
#![cfg_attr(feature = "log", doc = "[`init()`], which is one line.")]
#![cfg_attr(not(feature = "log"), doc = "`init()` of the feature `log`, which is one line.")]

mod exemplars;
mod figures;
mod locks;
#[cfg(feature = "log")]
mod log;
mod recorder;
mod span;
mod trace_parent;
mod traffic;

pub use asyncsteps_actors::latency::Distribution;

pub use exemplars::Exemplar;
pub(crate) use figures::{ErrorCounts, FunctionCounts};
pub use figures::{Figures, FunctionFigures};
pub use locks::{BusyKey, Closely, Locks, WatchedLock};
#[cfg(feature = "log")]
pub use log::{Format, Log, LogError, LogGuard, init, log};
pub(crate) use recorder::Recorder;
pub use recorder::{Keep, RequestRecord};
pub(crate) use span::{refused, request_span};
pub use trace_parent::{NotATraceParent, TraceParent};
pub use traffic::{ConnectionFigures, OpenConnection, Protocol, Traffic, TrafficFigures};
