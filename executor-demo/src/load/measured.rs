//! Times of requests, per function.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use hdrhistogram::errors::CreationError;

use super::calls::Call;
use super::client::Answer;

/// The longest time that is distinguished from longer ones: an hour, in microseconds.
const LONGEST: u64 = 3_600_000_000;

/// Digits of a time that are kept.
const DIGITS: u8 = 3;

/// The most characters of a code that are kept, and of the reason of a missing answer: a server may send
/// long ones.
const CODE: usize = 64;
const REASON: usize = 256;

/// The name of the times of all functions together.
pub(super) const ALL: &str = "all";

/// The measurements of a run.
pub(super) struct Measured {
    pub(super) all: FunctionTimes,
    functions: BTreeMap<&'static str, FunctionTimes>,
    /// How late requests were sent, which the machine of the load is to blame for.
    pub(super) late: LatencyHistogram,
    /// How long requests waited until one of the connections was free.
    pub(super) connection: LatencyHistogram,
    /// Errors and missing answers, by function and code or reason.
    pub(super) errors: BTreeMap<(&'static str, String), u64>,
    /// Requests that were not sent, because too many were in flight.
    pub(super) held_back: u64,
    pub(super) unanswered: u64,
}

/// Times of the answers of a function.
pub(super) struct FunctionTimes {
    /// From when a request was due to its answer.
    pub(super) response: LatencyHistogram,
    /// From when it was sent to its answer.
    pub(super) service: LatencyHistogram,
}

/// A distribution of times, in microseconds.
pub(super) struct LatencyHistogram(Histogram<u64>);

impl Measured {
    pub(super) fn new() -> Result<Self, CreationError> {
        let functions = Call::FUNCTIONS.into_iter();
        let functions = functions.map(|function| Ok((function, FunctionTimes::new()?)));
        Ok(Self {
            all: FunctionTimes::new()?,
            functions: functions.collect::<Result<_, CreationError>>()?,
            late: LatencyHistogram::new()?,
            connection: LatencyHistogram::new()?,
            errors: BTreeMap::new(),
            held_back: 0,
            unanswered: 0,
        })
    }

    /// Notes an answer, or that there was none.
    pub(super) fn record(
        &mut self,
        function: &'static str,
        answer: &Answer,
        response: Duration,
        service: Duration,
    ) {
        match answer {
            Answer::Result(_) => {}
            Answer::Error(code) => self.count_error(function, cut(code, CODE)),
            Answer::None(reason) => {
                self.count_error(function, format!("no answer: {}", cut(reason, REASON)));
                self.unanswered += 1;
                return;
            }
        }
        let of_function = self.functions.get_mut(function);
        for times in [Some(&mut self.all), of_function].into_iter().flatten() {
            times.response.record(response);
            times.service.record(service);
        }
    }

    /// The times of each function that was answered, and of all under the name `all`.
    pub(super) fn times(&self) -> impl Iterator<Item = (&'static str, &FunctionTimes)> {
        let functions = self.functions.iter().map(|(function, times)| (*function, times));
        let answered = functions.filter(|(_, times)| times.response.count() > 0);
        answered.chain([(ALL, &self.all)])
    }

    /// Requests that the server answered by saying that it has too many.
    pub(super) fn rejected(&self) -> u64 {
        let rejected = self.errors.iter().filter(|((_, code), _)| code == "DefenseRejected");
        rejected.map(|(_, count)| count).sum()
    }

    fn count_error(&mut self, function: &'static str, code: String) {
        *self.errors.entry((function, code)).or_insert(0) += 1;
    }
}

impl FunctionTimes {
    fn new() -> Result<Self, CreationError> {
        Ok(Self { response: LatencyHistogram::new()?, service: LatencyHistogram::new()? })
    }
}

impl LatencyHistogram {
    fn new() -> Result<Self, CreationError> {
        Ok(Self(Histogram::new_with_max(LONGEST, DIGITS)?))
    }

    pub(super) fn record(&mut self, time: Duration) {
        self.0.saturating_record(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    pub(super) fn count(&self) -> u64 {
        self.0.len()
    }

    pub(super) fn max(&self) -> u64 {
        self.0.max()
    }

    pub(super) fn mean(&self) -> f64 {
        self.0.mean()
    }

    pub(super) fn deviation(&self) -> f64 {
        self.0.stdev()
    }

    /// The time that this share of all is at most, in microseconds.
    pub(super) fn quantile(&self, share: f64) -> u64 {
        self.0.value_at_quantile(share)
    }

    /// Points of the distribution, closer to each other towards its end: share, time, and how many
    /// times are at most that.
    pub(super) fn points(&self) -> impl Iterator<Item = (f64, u64, u64)> {
        const PER_HALF: u32 = 5;
        let mut count = 0;
        self.0.iter_quantiles(PER_HALF).map(move |point| {
            count += point.count_since_last_iteration();
            (point.quantile_iterated_to(), point.value_iterated_to(), count)
        })
    }
}

/// Microseconds as milliseconds, to be shown.
#[expect(clippy::cast_precision_loss, reason = "microseconds of an hour fit")]
pub(super) fn ms(micros: u64) -> f64 {
    micros as f64 / 1000.0
}

/// The first characters of a text, at most `most`.
pub(super) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
