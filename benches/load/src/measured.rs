//! Times of requests, per function.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::client::Answer;

/// The longest time that is distinguished from longer ones: an hour, in microseconds.
const LONGEST: u64 = 3_600_000_000;

/// Digits of a time that are kept.
const DIGITS: u8 = 3;

/// The most characters of a code that are kept, and of the reason of a missing answer: a server may send
/// long ones.
const CODE: usize = 64;
const REASON: usize = 256;

/// The measurements of a run.
#[derive(Default)]
pub(crate) struct Measured {
    pub(crate) all: FunctionTimes,
    /// The times of each function that was answered.
    functions: BTreeMap<&'static str, FunctionTimes>,
    /// How late requests were sent, which the machine of the load is to blame for.
    pub(crate) late: LatencyHistogram,
    /// How long requests waited until one of the connections was free.
    pub(crate) connection: LatencyHistogram,
    /// Errors and missing answers, by function and code or reason.
    pub(crate) errors: BTreeMap<(&'static str, String), u64>,
    /// Requests that were not sent, because too many were in flight.
    pub(crate) held_back: u64,
    pub(crate) unanswered: u64,
}

/// Times of the answers of a function.
#[derive(Default)]
pub(crate) struct FunctionTimes {
    /// From when a request was due to its answer.
    pub(crate) response: LatencyHistogram,
    /// From when it was sent to its answer.
    pub(crate) service: LatencyHistogram,
}

/// A distribution of times, in microseconds.
pub(crate) struct LatencyHistogram(pub(crate) Histogram<u64>);

impl Measured {
    /// Notes an answer, or that there was none.
    pub(crate) fn record(
        &mut self,
        function: &'static str,
        answer: &Answer,
        response: Duration,
        service: Duration,
    ) {
        let error = match answer {
            Answer::Result(_) => None,
            Answer::Error(code) => Some(cut(code, CODE)),
            Answer::None(reason) => Some(format!("no answer: {}", cut(reason, REASON))),
        };
        if let Some(error) = error {
            *self.errors.entry((function, error)).or_insert(0) += 1;
        }
        if let Answer::None(_) = answer {
            self.unanswered += 1;
            return;
        }
        for times in [&mut self.all, self.functions.entry(function).or_default()] {
            times.response.record(response);
            times.service.record(service);
        }
    }

    /// The times of each function that was answered, and of all under the name `all`.
    pub(crate) fn times(&self) -> impl Iterator<Item = (&'static str, &FunctionTimes)> {
        let functions = self.functions.iter().map(|(function, times)| (*function, times));
        functions.chain([("all", &self.all)])
    }

    /// Requests that the server answered by saying that it has too many.
    pub(crate) fn rejected(&self) -> u64 {
        let rejected = self.errors.iter().filter(|((_, code), _)| code == "DefenseRejected");
        rejected.map(|(_, count)| count).sum()
    }
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self(Histogram::new_with_max(LONGEST, DIGITS).expect("bounds of times"))
    }
}

impl LatencyHistogram {
    pub(crate) fn record(&mut self, time: Duration) {
        self.0.saturating_record(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }
}

/// Microseconds as milliseconds, to be shown.
#[expect(clippy::cast_precision_loss, reason = "microseconds of an hour fit")]
pub(crate) fn ms(micros: u64) -> f64 {
    micros as f64 / 1000.0
}

/// The first characters of a text, at most `most`.
pub(crate) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
