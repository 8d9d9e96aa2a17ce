//! One text for the scrapes that wait at the same time.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tokio::sync::Mutex;

/// Makes one text at a time. Scrapes that arrived before a text was begun share it, so that many of them
/// cost the time and the memory of two texts: the one that is being made, and the next one.
#[derive(Default)]
pub(super) struct SharedText {
    /// How many texts were begun.
    begun: AtomicU64,
    /// The last text that was made; locked while the next one is being made.
    last: Mutex<Option<Numbered>>,
}

struct Numbered {
    number: u64,
    text: Bytes,
}

impl SharedText {
    /// A text that was begun after this call.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: the next scrape makes the text.
    pub(super) async fn get(&self, make: impl AsyncFnOnce() -> String) -> Bytes {
        let arrived = self.begun.load(Ordering::SeqCst);
        let mut last = self.last.lock().await;
        if let Some(Numbered { number, text }) = &*last
            && *number > arrived
        {
            return text.clone();
        }
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let text = Bytes::from(make().await);
        *last = Some(Numbered { number, text: text.clone() });
        text
    }
}
