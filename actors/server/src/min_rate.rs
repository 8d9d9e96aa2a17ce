//! How long the other end of a connection may do nothing.

use std::io;
use std::mem;
use std::task::Context;
use std::time::Duration;

use tokio::time::Instant;

use super::UNMOVED;
use super::alarm::{Alarm, later};
use super::limits::ServerLimits;

/// A minimum rate. Waits for the other end to take or to send bytes: at most a time, and each byte that moves buys some
/// of it back, so that a trickle ends too.
#[derive(Debug)]
pub(super) struct MinRate {
    most: Duration,
    /// Bytes per second.
    rate: u32,
    /// Whether it has waited before. It stands here because a body is in many futures, and there is room.
    was_asked: bool,
    /// The current wait, if there is one.
    wait: Option<Wait>,
    alarm: Alarm,
}

#[derive(Clone, Copy, Debug)]
struct Wait {
    /// When something moved last, or the wait began: as far as what moved bought.
    moved: Instant,
    /// When it ends.
    due: Instant,
}

impl MinRate {
    pub(super) fn new(limits: &ServerLimits) -> Self {
        let (most, rate) = (limits.stall_timeout, limits.least_rate);
        let (rate, was_asked) = (u32::try_from(rate).unwrap_or(u32::MAX), false);
        Self { most, rate, was_asked, wait: None, alarm: Alarm::default() }
    }

    /// Whether nothing was there for the first time: hyper yields nothing of a body before it was asked.
    pub(super) fn is_first(&mut self) -> bool {
        !mem::replace(&mut self.was_asked, true)
    }

    /// Nothing moves; there is less time if the server closes, since `closing`.
    ///
    /// # Errors
    /// How long it has lasted, if that is too long.
    pub(super) fn wait(
        &mut self,
        closing: Option<Instant>,
        cx: &mut Context<'_>,
    ) -> Result<(), Duration> {
        let now = Instant::now();
        let most = self.most;
        let Wait { moved, due } =
            *self.wait.get_or_insert_with(|| Wait { moved: now, due: later(now, most) });
        let due = closing.map_or(due, |closing| due.min(closing.max(moved) + UNMOVED));
        if now >= due {
            return Err(now.saturating_duration_since(moved));
        }
        self.alarm.wake_at(due, cx);
        Ok(())
    }

    /// Counts bytes that moved.
    pub(super) fn moved(&mut self, bytes: usize) {
        if let Some(wait) = &mut self.wait {
            let now = Instant::now();
            let bought = bought(bytes, self.rate.into());
            let moved = (wait.moved + bought).min(now);
            *wait = Wait { moved, due: (wait.due.max(now) + bought).min(later(now, self.most)) };
        }
    }

    /// There is nothing to wait for any more.
    pub(super) fn rest(&mut self) {
        if self.wait.take().is_some() {
            self.alarm = Alarm::default();
        }
    }
}

/// The time that bytes buy, at a rate in bytes per second.
pub(super) fn bought(bytes: usize, rate: u64) -> Duration {
    Duration::from_micros((bytes as u64).saturating_mul(1_000_000) / rate.max(1))
}

pub(super) fn timed_out() -> io::Error {
    io::ErrorKind::TimedOut.into()
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use super::*;

    /// After how many seconds a wait ends that begins when the server closes, if so many bytes move in each second.
    async fn seconds(bytes: usize) -> u64 {
        let closing = Instant::now();
        let mut patience = MinRate::new(&ServerLimits::default());
        for second in 0..100 {
            let waited = poll_fn(|cx| Poll::Ready(patience.wait(Some(closing), cx))).await;
            if waited.is_err() {
                return second;
            }
            tokio::time::advance(Duration::from_secs(1)).await;
            patience.moved(bytes);
        }
        100
    }

    #[tokio::test]
    async fn a_trickle_ends_while_the_server_closes_as_if_nothing_moved() {
        tokio::time::pause();
        assert_eq!((seconds(0).await, seconds(1).await), (5, 6));
        assert_eq!(seconds(1 << 10).await, 100, "it is fast enough");
    }
}
