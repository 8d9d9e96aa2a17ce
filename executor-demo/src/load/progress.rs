//! A line on the standard error that shows how a run goes.

use std::cell::Cell;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::measured::Measured;

/// How often the line changes: percentiles cost more than a request.
const EVERY: Duration = Duration::from_millis(250);

/// The progress of one run; nothing where the standard error is no terminal.
pub(super) struct Progress {
    bar: ProgressBar,
    duration: Duration,
    /// When it was shown last, since the start.
    shown: Cell<Duration>,
}

impl Progress {
    pub(super) fn start(is_quiet: bool, rate: f64, duration: Duration) -> Self {
        let length = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let bar = if is_quiet { ProgressBar::hidden() } else { ProgressBar::new(length) };
        // the template is a constant that its test has read
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style);
        }
        bar.set_prefix(format!("{rate:.0}/s"));
        Self { bar, duration, shown: Cell::new(Duration::ZERO) }
    }

    /// Shows the measurements until now, with this number of requests in flight.
    pub(super) fn show(&self, measured: &Measured, now: Duration, in_flight: usize) {
        if self.bar.is_hidden() || now - self.shown.get() < EVERY {
            return;
        }
        self.shown.set(now);
        let done = u64::try_from(now.min(self.duration).as_millis()).unwrap_or(u64::MAX);
        self.bar.set_position(done);
        let times = &measured.all.response;
        #[expect(clippy::cast_precision_loss, reason = "a number to show")]
        let answers = times.count() as f64 / now.as_secs_f64();
        let [p50, p99, max] = [times.quantile(0.5), times.quantile(0.99), times.max()];
        let [p50, p99, max] = [p50, p99, max].map(Duration::from_micros);
        self.bar.set_message(format!(
            "{answers:.0} answers/s, p50 {p50:.1?}, p99 {p99:.1?}, max {max:.1?}, {in_flight} in flight"
        ));
    }

    pub(super) fn end(self) {
        self.bar.finish_and_clear();
    }
}

const TEMPLATE: &str = "{prefix} [{bar:30}] {msg}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_is_one() {
        ProgressStyle::with_template(TEMPLATE).expect("a template");
    }
}
