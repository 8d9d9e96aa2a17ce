//! Observability: spans of requests and steps, a log of them, and traces over several services.
//!
//! The library reports through `tracing`: a span per request (target `asyncsteps::request`, level
//! INFO), a span per step below it (`asyncsteps::step`, DEBUG), and events. A program chooses what
//! becomes of them: a subscriber of its own, or
#![cfg_attr(feature = "log", doc = "[`init()`], which is one line.")]
#![cfg_attr(not(feature = "log"), doc = "`init()` of the feature `log`, which is one line.")]
//! A subscriber of `tracing_subscriber::fmt` writes events alone, and so nothing of a request that succeeds,
//! unless it is made with `with_span_events(FmtSpan::CLOSE)`.
//!
//! Every request belongs to a trace ([`TraceParent`]). Sampled requests ([`Sampling`]) have spans of their steps, and
//! go to an [`Exporter`], such as
#![cfg_attr(feature = "otel", doc = "[`otlp()`], which sends them to OpenTelemetry.")]
#![cfg_attr(not(feature = "otel"), doc = "`otlp()` of the feature `otel`, for OpenTelemetry.")]

mod cut;
mod exemplars;
mod export;
mod figures;
mod locks;
#[cfg(feature = "log")]
mod log;
#[cfg(feature = "otel")]
mod otlp;
mod record;
mod recorder;
mod request_trace;
mod sampling;
mod span;
mod traffic;

pub use asyncsteps_actors::latency::Distribution;
pub use asyncsteps_actors::trace::{ParseTraceParentError, TraceParent};
pub(crate) use cut::{Cut, LONGEST_VALUE};
pub use exemplars::Exemplar;
pub use export::{ExportFigures, Exporter};
pub(crate) use figures::{ErrorCounts, FunctionCounts};
pub use figures::{Figures, FunctionFigures};
pub use locks::{BusyKey, LockDetail, Locks, WatchedLock};
#[cfg(feature = "log")]
pub use log::{Format, Log, LogError, LogGuard, init, log};
#[cfg(feature = "otel")]
pub use otlp::{Otlp, OtlpError, OtlpExporter, OtlpGuard, otlp};
pub use record::RequestRecord;
pub use recorder::Retention;
pub(crate) use recorder::{Recorder, Wanted};
pub(crate) use request_trace::RequestTrace;
pub use sampling::{CallerFlag, Sampling};
pub(crate) use span::{refused, request_span};
pub use traffic::{ConnectionFigures, OpenConnection, Protocol, Traffic, TrafficFigures};
