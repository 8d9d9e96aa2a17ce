//! A thread that says when requests are due: timers of event loops are too coarse for it.

use std::io;
use std::thread;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::schedule::Schedule;

/// Says when requests of `schedule` are due, counted from `start`; ends with the schedule, or when the
/// receiver is dropped.
///
/// Requests that are late, because the thread was, come at once and in order. The channel is not
/// bounded: it holds the requests that the receiver is behind.
pub(super) fn pace(
    schedule: Schedule,
    start: Instant,
) -> io::Result<mpsc::UnboundedReceiver<Duration>> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let pace = move || {
        for due in schedule {
            wait_until(start + due);
            if sender.send(due).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("pacer".to_owned()).spawn(pace)?;
    Ok(receiver)
}

fn wait_until(at: Instant) {
    loop {
        let left = at.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        // it may come back early
        thread::park_timeout(left);
    }
}
