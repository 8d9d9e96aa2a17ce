//! One run at one rate.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::task::JoinSet;
use tokio::time::{Instant, interval};

use crate::books::Books;
use crate::client::Client;
use crate::measured::Measured;
use crate::mix::Mix;
use crate::options::Options;
use crate::schedule::Schedule;

/// The most requests in flight: requests that are due beyond them are not sent, but reported.
const MAX_IN_FLIGHT: usize = 20_000;

/// How often the progress is shown: percentiles cost more than a request.
const EVERY: Duration = Duration::from_millis(250);

/// The state that all runs against a server share.
pub(crate) struct Load {
    pub(crate) client: Client,
    pub(crate) books: RefCell<Books>,
    pub(crate) mix: RefCell<Mix>,
}

/// A run that has ended.
pub(crate) struct Run {
    pub(crate) rate: f64,
    pub(crate) measured: Measured,
    /// From the first request to the last answer.
    pub(crate) took: Duration,
}

impl Load {
    /// Sends requests at this rate, and waits for their answers.
    pub(crate) async fn run(self: &Rc<Self>, options: &Options, rate: f64) -> anyhow::Result<Run> {
        let schedule = Schedule::new(options.arrivals, rate, options.duration, options.seed);
        let bar = progress_bar(rate, options.duration);
        let mut tick = interval(EVERY);
        let measured = Rc::new(RefCell::new(Measured::default()));
        let start = Instant::now();
        let mut due = schedule.pace(start)?;
        let (mut requests, mut goes_on) = (JoinSet::new(), true);
        while goes_on || !requests.is_empty() {
            tokio::select! {
                // answers before requests: they make room
                biased;
                _ = tick.tick(), if !bar.is_hidden() => {
                    show(&bar, &measured.borrow(), start.elapsed(), requests.len());
                }
                Some(_) = requests.join_next() => {}
                next = due.recv(), if goes_on => match next {
                    None => goes_on = false,
                    Some(due) => {
                        let mut measured_now = measured.borrow_mut();
                        measured_now.late.record(due.elapsed());
                        if requests.len() >= MAX_IN_FLIGHT {
                            measured_now.held_back += 1;
                        } else {
                            requests.spawn_local(Rc::clone(self).request(due, Rc::clone(&measured)));
                        }
                    }
                }
            }
        }
        let took = start.elapsed();
        bar.finish_and_clear();
        Ok(Run { rate, measured: measured.take(), took })
    }

    /// One request, which was due then.
    async fn request(self: Rc<Self>, due: Instant, measured: Rc<RefCell<Measured>>) {
        let call = self.mix.borrow_mut().next();
        let sent = Instant::now();
        let (answer, waited) = self.client.call_timed(call.function(), &call.params()).await;
        let took = sent.elapsed().saturating_sub(waited);
        measured.borrow_mut().record(call.function(), &answer, due.elapsed(), took);
        measured.borrow_mut().connection.record(waited);
        self.mix.borrow_mut().learn(&call, &answer);
        self.books.borrow_mut().record(call, &answer);
    }
}

/// A line on the standard error that shows how a run goes; hidden where that is no terminal.
fn progress_bar(rate: f64, duration: Duration) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix} [{bar:30}] {msg}").expect("a template");
    let bar = ProgressBar::new(millis(duration)).with_style(style);
    bar.with_prefix(format!("{rate:.0}/s"))
}

fn show(bar: &ProgressBar, measured: &Measured, now: Duration, in_flight: usize) {
    bar.set_position(millis(now));
    let times = &measured.all.response.0;
    #[expect(clippy::cast_precision_loss, reason = "a number to show")]
    let answers = times.len() as f64 / now.as_secs_f64();
    let [p50, p99, max] =
        [times.value_at_quantile(0.5), times.value_at_quantile(0.99), times.max()]
            .map(Duration::from_micros);
    bar.set_message(format!(
        "{answers:.0} answers/s, p50 {p50:.1?}, p99 {p99:.1?}, max {max:.1?}, {in_flight} in flight"
    ));
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_is_one() {
        progress_bar(1.0, Duration::from_secs(1));
    }
}
