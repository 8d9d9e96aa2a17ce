//! When requests are due, and a thread that says so: timers of event loops are too coarse for it.

use std::io;
use std::thread;
use std::time::Duration;

use asyncsteps_core::sim::Random;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::options::Arrivals;

/// The times at which requests are due, from the start of a run to its end.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    arrivals: Arrivals,
    random: Random,
    /// Seconds between two requests, on average.
    distance: f64,
    /// When the next one is due, in seconds.
    next: f64,
    end: f64,
}

impl Schedule {
    pub(crate) fn new(arrivals: Arrivals, rate: f64, duration: Duration, seed: u64) -> Self {
        let end = duration.as_secs_f64();
        Self { arrivals, random: Random::new(seed), distance: 1.0 / rate, next: 0.0, end }
    }

    /// Says when requests are due, counted from `start`; ends with the schedule, or when the receiver
    /// is dropped.
    ///
    /// Requests that are late, because the thread was, come at once and in order. The channel is not
    /// bounded: it holds the requests that the receiver is behind.
    pub(crate) fn pace(self, start: Instant) -> io::Result<mpsc::UnboundedReceiver<Instant>> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let pace = move || {
            for due in self.map(|due| start + due) {
                // a pause may end early
                while Instant::now() < due {
                    thread::park_timeout(due.saturating_duration_since(Instant::now()));
                }
                if sender.send(due).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("pacer".to_owned()).spawn(pace)?;
        Ok(receiver)
    }

    fn step(&mut self) -> f64 {
        match self.arrivals {
            Arrivals::Fixed => self.distance,
            Arrivals::Poisson => -self.unit().ln() * self.distance,
        }
    }

    /// A random number above 0 and up to 1.
    #[expect(clippy::cast_precision_loss, reason = "the 53 bits that are left fit")]
    fn unit(&mut self) -> f64 {
        const BITS: u32 = f64::MANTISSA_DIGITS;
        let number = self.random.number() >> (u64::BITS - BITS);
        (number + 1) as f64 / (1_u64 << BITS) as f64
    }
}

impl Iterator for Schedule {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        if self.next >= self.end {
            return None;
        }
        let due = Duration::from_secs_f64(self.next);
        self.next += self.step();
        Some(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(arrivals: Arrivals, seed: u64) -> Vec<Duration> {
        Schedule::new(arrivals, 100.0, Duration::from_secs(100), seed).collect()
    }

    #[test]
    fn fixed_arrivals_have_equal_distances() {
        let due = due(Arrivals::Fixed, 0);
        assert!((10_000..=10_001).contains(&due.len()), "{}", due.len());
        assert_eq!(due[0], Duration::ZERO);
        for (number, due) in due.iter().enumerate() {
            let expected = Duration::from_millis(10) * u32::try_from(number).unwrap();
            assert!(due.abs_diff(expected) < Duration::from_micros(1), "{number}: {due:?}");
        }
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_the_variance_of_chance() {
        let due = due(Arrivals::Poisson, 7);
        assert!((9_700..10_300).contains(&due.len()), "{}", due.len());
        assert!(due.is_sorted());
        let mut seconds = [0_i32; 100];
        for due in &due {
            seconds[usize::try_from(due.as_secs()).unwrap()] += 1;
        }
        // the variance of the requests in a second is their mean
        let squares: i32 = seconds.iter().map(|requests| (requests - 100).pow(2)).sum();
        assert!((60..160).contains(&(squares / 100)), "{}", squares / 100);
        assert_eq!(due, self::due(Arrivals::Poisson, 7), "a seed repeats them");
        assert_ne!(due, self::due(Arrivals::Poisson, 8));
    }
}
