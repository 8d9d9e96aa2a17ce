//! Whether the server is there: it is asked at an interval, by a message of the node to itself.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The token of the inbox that the node's messages to itself come to.
pub(super) const PULSE: &str = "pulse";

/// A server that is silent for so many intervals is lost.
pub(super) const SILENT: u32 = 3;

/// How long the server has been silent.
#[derive(Debug)]
pub(super) struct Pulse {
    /// How many intervals have ended since it was heard.
    intervals: AtomicU32,
    heard: Mutex<Instant>,
}

impl Pulse {
    pub(super) fn new() -> Self {
        Self { intervals: AtomicU32::new(0), heard: Mutex::new(Instant::now()) }
    }

    /// A message has come back, so the server hears the node, and the node the server.
    pub(super) fn hear(&self) {
        self.intervals.store(0, Ordering::Relaxed);
        *self.heard.lock() = Instant::now();
    }

    /// An answer to a call has come. Messages to the node itself wait behind the answers of a flood.
    pub(super) fn answered(&self) {
        self.intervals.store(0, Ordering::Relaxed);
    }

    /// An interval has ended; whether the server is silent. An interval that was longer, since the node did not run,
    /// counts once: what has come meanwhile is read before the next one ends.
    pub(super) fn pass(&self, is_connected: bool) -> bool {
        let is_silent =
            is_connected && self.intervals.fetch_add(1, Ordering::Relaxed) + 1 >= SILENT;
        if is_silent || !is_connected {
            // the next connection has its intervals too
            self.intervals.store(0, Ordering::Relaxed);
        }
        is_silent
    }

    /// Since when the server is silent.
    pub(super) fn silence(&self) -> Duration {
        self.heard.lock().elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_intervals_without_an_answer_are_silence() {
        let pulse = Pulse::new();
        let passes = |are_connected: &[bool]| -> Vec<bool> {
            are_connected.iter().map(|it| pulse.pass(*it)).collect()
        };
        assert_eq!(passes(&[true; 6]), [false, false, true, false, false, true]);
        assert_eq!(passes(&[true, false, true, true, true]), [false, false, false, false, true]);
        assert_eq!(passes(&[true; 2]), [false, false]);
        pulse.hear();
        assert_eq!(passes(&[true; 2]), [false, false]);
        pulse.answered();
        assert_eq!(passes(&[true; 3]), [false, false, true]);
    }

    #[tokio::test(start_paused = true)]
    async fn silence_lasts_from_the_last_answer_on() {
        let pulse = Pulse::new();
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(pulse.silence(), Duration::from_secs(5));
        pulse.hear();
        assert_eq!(pulse.silence(), Duration::ZERO);
    }
}
