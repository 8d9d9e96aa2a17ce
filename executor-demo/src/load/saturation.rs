//! The saturation point: the highest rate that a server sustains.

use std::rc::Rc;
use std::time::Duration;

use super::options::LoadOptions;
use super::report::Saturation;
use super::run::{Load, Run};

/// A rate is found to one part in this number.
const PRECISION: f64 = 20.0;

/// The lowest rate that is tried, in requests per second.
const LOWEST: f64 = 1.0;

/// The most runs.
const RUNS: u32 = 20;

/// Finds the highest rate whose 99th percentile of response times is within `limit`.
///
/// The rate of the options is the first; it is doubled while the server sustains it, or halved until
/// it does, and then the range between is halved. Errors and requests that were not sent count as too
/// much, if there are more than one in a hundred. The returned run is the one at the highest rate, or
/// the last one if no rate is within the limit.
pub(super) async fn find(
    load: &Rc<Load>,
    options: &LoadOptions,
    limit: Duration,
) -> anyhow::Result<(Run, Saturation)> {
    let mut search = Search::new(options.rate);
    let (mut best, mut last) = (None, None);
    for _ in 0..RUNS {
        let Some(rate) = search.next() else { break };
        let run = load.run(options, rate).await?;
        let stands = run.stands(limit);
        search.tried(rate, stands);
        if stands {
            best = Some(run);
        } else {
            last = Some(run);
        }
    }
    match (best, last) {
        (Some(best), _) => {
            let rate = best.rate;
            Ok((best, Saturation::At(rate)))
        }
        (None, Some(last)) => Ok((last, Saturation::None)),
        (None, None) => anyhow::bail!("a rate below {LOWEST} a second"),
    }
}

impl Run {
    fn stands(&self, limit: Duration) -> bool {
        let measured = &self.measured;
        let p99 = Duration::from_micros(measured.all.response.quantile(0.99));
        let errors = measured.held_back + measured.unanswered + measured.rejected();
        p99 <= limit && errors.saturating_mul(100) <= measured.all.response.count()
    }
}

/// Which rate is tried next.
struct Search {
    next: f64,
    /// The highest rate that was stood, and the lowest that was not.
    low: Option<f64>,
    high: Option<f64>,
}

impl Search {
    fn new(first: f64) -> Self {
        Self { next: first, low: None, high: None }
    }

    /// The next rate; `None` if the highest is known well enough.
    fn next(&self) -> Option<f64> {
        match (self.low, self.high) {
            (Some(low), Some(high)) if high - low <= low / PRECISION => None,
            _ if self.next < LOWEST => None,
            _ => Some(self.next),
        }
    }

    fn tried(&mut self, rate: f64, stands: bool) {
        *(if stands { &mut self.low } else { &mut self.high }) = Some(rate);
        self.next = match (self.low, self.high) {
            (Some(low), Some(high)) => f64::midpoint(low, high),
            (Some(low), None) => low * 2.0,
            (None, Some(high)) => high / 2.0,
            (None, None) => rate,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_ends_close_below_the_knee() {
        for (first, knee) in [(1000.0, 1000.0), (1000.0, 37_123.0), (1000.0, 20.0), (1.0, 500.0)] {
            let (mut search, mut runs) = (Search::new(first), 0);
            while let Some(rate) = search.next() {
                search.tried(rate, rate <= knee);
                runs += 1;
            }
            let found = search.low.expect("a rate that is stood");
            assert!(found <= knee && found * 1.06 >= knee, "{found} for {knee}");
            assert!(runs <= RUNS, "{runs} runs");
        }
    }

    #[test]
    fn a_server_that_stands_nothing_ends_the_search() {
        let mut search = Search::new(1000.0);
        while let Some(rate) = search.next() {
            search.tried(rate, false);
        }
        assert_eq!(search.low, None);
    }
}
