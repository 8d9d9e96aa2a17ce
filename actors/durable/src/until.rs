//! Waits for a change of what a flow or a node keeps.

use tokio::sync::Notify;

/// Looks, and again after each change, until there is something.
pub(crate) async fn until<T>(changed: &Notify, mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        let changed = changed.notified();
        if let Some(found) = look() {
            return found;
        }
        changed.await;
    }
}
