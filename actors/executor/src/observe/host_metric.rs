//! Figures of what hosts requests beside an executor, such as a journal.

use futures_util::future::BoxFuture;

/// Figures of a host of requests.
pub trait HostFigures: Send + Sync {
    /// The figures as they are now, or a few seconds ago; within about a second.
    fn figures(&self) -> BoxFuture<'_, Vec<HostMetric>>;
}

/// A metric of a host.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "hosts make it")]
pub struct HostMetric {
    /// Its name, without a unit.
    pub name: &'static str,
    /// What it is.
    pub help: &'static str,
    /// The kind of its values.
    pub kind: MetricKind,
    /// The labels and the value of each of its samples.
    pub samples: Vec<(Labels, f64)>,
}

/// The labels of a sample.
pub type Labels = Vec<(&'static str, String)>;

/// The kind of the values of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "whoever shows them knows all")]
pub enum MetricKind {
    /// A number that may fall.
    Gauge,
    /// The same in seconds.
    Seconds,
    /// The same in bytes.
    Bytes,
    /// A number that only grows.
    Total,
}
