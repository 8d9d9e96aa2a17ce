//! One text for the scrapes that wait at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use asyncsteps_actors::clock::Clock;
use bytes::Bytes;
use tokio::sync::Mutex;

/// This number of texts may wait for their readers while each scrape still gets a new one: more than the servers and
/// the people that look at one service.
const UNREAD: usize = 16;

/// How old a text may be that a scrape gets while more of them wait: less than the time between two scrapes
/// of a server. A client that reads nothing is closed after a minute, so a hundred texts is what all such
/// clients together can hold.
const AGE: Duration = Duration::from_secs(1);

/// Makes one text at a time. Scrapes that arrived before a text was begun share it, so that many of them
/// cost the time and the memory of two texts: the one that is being made, and the next one. Texts that
/// their readers do not take are bounded as well: while there are many, one text a second is made.
pub(super) struct SharedText {
    /// How many texts were begun.
    begun: AtomicU64,
    /// The last text that was made; locked while the next one is being made.
    last: Mutex<Option<Made>>,
    clock: Clock,
    /// Each text that is not dropped has a clone.
    unread: Arc<()>,
}

struct Made {
    number: u64,
    begun: Duration,
    text: Bytes,
}

/// A text that counts until its last reader has it.
struct CountedText {
    text: String,
    _unread: Arc<()>,
}

impl Default for SharedText {
    fn default() -> Self {
        let (clock, unread) = (Clock::start(), Arc::default());
        Self { begun: AtomicU64::default(), last: Mutex::default(), clock, unread }
    }
}

impl SharedText {
    /// A text that was begun after this call, or at most a second before it while many wait for their
    /// readers.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: the next scrape makes the text.
    pub(super) async fn get(&self, make: impl AsyncFnOnce() -> String) -> Bytes {
        let arrived = self.begun.load(Ordering::SeqCst);
        let mut last = self.last.lock().await;
        let now = self.clock.elapsed();
        // the clone of this file is none of a text
        let are_many = Arc::strong_count(&self.unread) > UNREAD;
        if let Some(Made { number, begun, text }) = &*last
            && (*number > arrived || are_many && now < *begun + AGE)
        {
            return text.clone();
        }
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let counted = CountedText { text: make().await, _unread: Arc::clone(&self.unread) };
        let text = Bytes::from_owner(counted);
        *last = Some(Made { number, begun: now, text: text.clone() });
        text
    }
}

impl AsRef<[u8]> for CountedText {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}
