//! The flow at one end of raw data.

use std::task::{Context, Poll};
use std::time::Duration;

/// The flow at one end of raw data.
pub(crate) trait RawFlow {
    /// Data moved: the time limit is counted from now.
    fn progress(&self);

    /// The handler waits for data of the client, which must keep to a least rate.
    fn wait_for_data(&self);

    /// Bytes came from the client.
    fn received(&self, bytes: usize);

    /// The handler waits until the client takes data: the flow has `at_least` this much time.
    fn wait_for_client(&self, at_least: Duration);

    /// Whether the flow succeeded, once it has ended.
    fn poll_end(&self, cx: &mut Context<'_>) -> Poll<bool>;

    /// The client is gone: the flow is cancelled.
    fn give_up(&self);
}
