//! Observability: spans of requests and steps, a log of them, and traces over several services.
//!
//! The library reports through `tracing`: a span per request (target `asyncsteps::request`, level
//! INFO), a span per step below it (`asyncsteps::step`, DEBUG), and events. A program chooses what
//! becomes of them: a subscriber of its own, or
//! the log of `asyncsteps-observe`, which is one line.
//! A subscriber of `tracing_subscriber::fmt` writes events alone, and so nothing of a request that succeeds,
//! unless it is made with `with_span_events(FmtSpan::CLOSE)`.
//!
//! Every request belongs to a trace ([`TraceParent`]). Sampled requests ([`Sampling`]) have spans of their steps, and
//! go to an [`Exporter`], such as the one of `asyncsteps-observe` that sends them to OpenTelemetry.

mod cut;
mod exemplars;
mod export;
mod figures;
mod host_metric;
mod record;
mod recorder;
mod request_trace;
mod sampling;
mod span;
mod traffic;

pub use asyncsteps_actors::latency::Distribution;
pub use asyncsteps_actors::trace::{ParseTraceParentError, TraceParent};
pub use cut::{Cut, LONGEST_VALUE};
pub use exemplars::Exemplar;
pub use export::{ExportFigures, Exporter};
pub(crate) use figures::{ErrorCounts, FunctionCounts};
pub use figures::{Figures, FunctionFigures};
pub use host_metric::{HostFigures, HostMetric, Labels, MetricKind};
pub use record::RequestRecord;
pub use recorder::Retention;
pub(crate) use recorder::{Recorder, Wanted};
pub(crate) use request_trace::RequestTrace;
pub use sampling::{CallerFlag, Sampling};
pub(crate) use span::{refused, request_span};
pub use traffic::{ConnectionFigures, OpenConnection, Protocol, Traffic, TrafficFigures};
