//! Handing sampled requests to another system.

use std::sync::Arc;

use super::record::RequestRecord;

/// Takes the ended requests that were [sampled](super::Sampling), to hand them to another system, such
/// as a collector of traces; see [`Builder::export`](crate::Builder::export).
pub trait Exporter: Send + Sync + 'static {
    /// A request has ended, with what its steps and its undos did. It is called on the arbiter of the request, which
    /// waits meanwhile.
    fn export(&self, request: Arc<RequestRecord>);

    /// The counts of the requests so far, for metrics; zeros unless the exporter counts them.
    fn figures(&self) -> ExportFigures {
        ExportFigures::default()
    }
}

/// The counts of requests that an [`Exporter`] has taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "exporters of programs make them")]
pub struct ExportFigures {
    /// They were handed over.
    pub exported: u64,
    /// They were dropped, because too many waited to be handed over.
    pub queue_full: u64,
    /// They were dropped, because the other system did not take them, or the export had ended.
    pub failed: u64,
}

impl ExportFigures {
    /// All that were dropped.
    #[must_use]
    pub fn dropped(self) -> u64 {
        self.queue_full + self.failed
    }
}
