//! Futures of fabrics.

use std::pin::Pin;
use std::time::Duration;

/// The future of a [`Fabric`](crate::Fabric).
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Waits for a time limit, if there is one.
pub(crate) async fn wait(time_limit: Option<Duration>) {
    match time_limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}
