//! The policy by which a step is tried again: its error handler adds the next attempt (FTN12 §1.2.1).

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, ErrorCode, codes};
use crate::replay::NotUndone;

/// By which factor each pause is longer than the one before it, by default.
const FACTOR: u32 = 2;

/// The longest pause by default: much longer, and people wait for nothing.
const LONGEST: Duration = Duration::from_secs(30);

/// When and how often a step is tried again; see [`Added::retry`](crate::Added::retry).
///
/// By default only `Timeout` is tried again, because it is the one error that is known to be
/// transient: name the others with [`on`](Self::on) and [`on_code`](Self::on_code). An
/// [undo](crate::UndoPolicy::retry) is tried again after any error, unless some are named. There is no
/// pause between the attempts unless [`backoff`](Self::backoff) sets one.
///
/// ```
/// use std::io;
/// use std::time::Duration;
/// use asyncsteps_core::{Retry, codes};
///
/// let policy = Retry::attempts(4)
///     .backoff(Duration::from_millis(50)) // 50 ms, 100 ms, 200 ms
///     .jitter()
///     .on(|error: &io::Error| error.kind() == io::ErrorKind::ConnectionReset)
///     .on_code(codes::COMM_ERROR)
///     .within(Duration::from_secs(2));
/// ```
#[derive(Clone)]
#[must_use = "it does nothing by itself"]
pub struct Retry {
    attempts: u32,
    first: Duration,
    factor: u32,
    longest: Duration,
    has_jitter: bool,
    overall: Option<Duration>,
    causes: Vec<Cause>,
}

/// Whether another attempt helps with an error.
type Cause = Arc<dyn Fn(&Error) -> bool + Send + Sync>;

impl Retry {
    /// At most `most` attempts, the first one included; 0 counts as 1.
    pub fn attempts(most: u32) -> Self {
        Self {
            attempts: most.max(1),
            first: Duration::ZERO,
            factor: FACTOR,
            longest: LONGEST,
            has_jitter: false,
            overall: None,
            causes: Vec::new(),
        }
    }

    /// Waits so long before the second attempt, and twice as long before each further one; see
    /// [`factor`](Self::factor) and [`longest`](Self::longest). By default there is no pause.
    pub fn backoff(self, first: Duration) -> Self {
        Self { first, ..self }
    }

    /// By how much each pause is longer than the one before it: 2 by default, 1 for equal pauses.
    pub fn factor(self, factor: u32) -> Self {
        Self { factor, ..self }
    }

    /// The longest pause: 30 s by default.
    pub fn longest(self, longest: Duration) -> Self {
        Self { longest, ..self }
    }

    /// Shortens each pause by chance, to half of it at most, so that flows that failed together are
    /// not tried again together. The random numbers come from the flow, see
    /// [`Flow::seed`](crate::Flow::seed).
    pub fn jitter(self) -> Self {
        Self { has_jitter: true, ..self }
    }

    /// Limits the time of all attempts and pauses together, from the first attempt on. An attempt
    /// in progress at its end is cut with `Timeout`; a pause that would take longer is not begun.
    /// By default there is no limit.
    pub fn within(self, limit: Duration) -> Self {
        Self { overall: Some(limit), ..self }
    }

    /// Tries again if `when` agrees to an error of this type. The error itself may have it, or one of
    /// the errors that caused it ([`source`](StdError::source)).
    pub fn on<E: StdError + 'static>(
        self,
        when: impl Fn(&E) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.when(move |error| error.find::<E>().is_some_and(&when))
    }

    /// Tries again if the error has this code.
    pub fn on_code(self, code: impl Into<ErrorCode>) -> Self {
        let code = code.into();
        self.when(move |error| error.code() == code)
    }

    fn when(mut self, when: impl Fn(&Error) -> bool + Send + Sync + 'static) -> Self {
        self.causes.push(Arc::new(when));
        self
    }

    /// The same for an undo: unless errors were named, it is tried again after each error, except when a host does not
    /// let the undo run.
    pub(crate) fn of_undo(self) -> Self {
        if !self.causes.is_empty() {
            return self;
        }
        self.when(|error| error.find::<NotUndone>().is_none())
    }

    /// How many attempts there are at the most, the first one included.
    #[must_use]
    pub fn most_attempts(&self) -> u32 {
        self.attempts
    }

    /// The [pause](Self::backoff) before the second attempt.
    #[must_use]
    pub fn first_pause(&self) -> Duration {
        self.first.min(self.longest)
    }

    /// The [limit](Self::within) of the time of all attempts and pauses together.
    #[must_use]
    pub fn overall(&self) -> Option<Duration> {
        self.overall
    }

    pub(crate) fn helps(&self, error: &Error) -> bool {
        error.code() == codes::TIMEOUT || self.causes.iter().any(|when| when(error))
    }

    /// The pause after the attempt with this number.
    pub(crate) fn pause(&self, attempt: u32, random: impl FnOnce() -> u64) -> Duration {
        let growth = self.factor.saturating_pow(attempt.saturating_sub(1));
        let pause = self.first.saturating_mul(growth).min(self.longest);
        if !self.has_jitter {
            return pause;
        }
        let half = u64::try_from((pause / 2).as_nanos()).unwrap_or(u64::MAX);
        let shorter = Duration::from_nanos(random() % half.saturating_add(1));
        pause.saturating_sub(shorter)
    }
}

impl fmt::Debug for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retry")
            .field("attempts", &self.attempts)
            .field("backoff", &self.first)
            .field("factor", &self.factor)
            .field("longest", &self.longest)
            .field("jitter", &self.has_jitter)
            .field("within", &self.overall)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(retry: &Retry, random: u64) -> Vec<u128> {
        (1..6).map(|attempt| retry.pause(attempt, || random).as_millis()).collect()
    }

    #[test]
    fn pauses_grow_to_the_longest_and_jitter_takes_at_most_half() {
        let retry = Retry::attempts(9).backoff(Duration::from_millis(100));
        assert_eq!(pauses(&retry, 7), [100, 200, 400, 800, 1600]);
        let retry = retry.factor(3).longest(Duration::from_millis(1000));
        assert_eq!(pauses(&retry, 7), [100, 300, 900, 1000, 1000]);
        let retry = retry.jitter();
        assert_eq!(pauses(&retry, 0), [100, 300, 900, 1000, 1000]);
        let half = 50_000_000;
        assert_eq!(retry.pause(1, || half), Duration::from_millis(50));
        assert_eq!(retry.pause(1, || half + 1), Duration::from_millis(100));
        let at_once = Retry::attempts(2).jitter();
        assert_eq!(at_once.pause(1, || 5), Duration::ZERO);
    }
}
