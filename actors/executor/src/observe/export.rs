//! Handing sampled requests to another system.

use std::sync::Arc;

use super::record::RequestRecord;

/// Takes the requests that are over and were [sampled](super::Sampling), to hand them to another system,
/// such as a collector of traces; see [`Builder::export`](crate::Builder::export).
pub trait Exporter: Send + Sync + 'static {
    /// A request is over, with what its steps did and those that undid it. It is called on the arbiter of
    /// the request, which waits meanwhile.
    fn export(&self, request: Arc<RequestRecord>);
}
