//! The saturation point: the highest rate that a server sustains.

use std::rc::Rc;
use std::time::Duration;

use anyhow::Context as _;

use crate::options::Options;
use crate::report::Saturation;
use crate::run::{Load, Run};

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
pub(crate) async fn find(
    load: &Rc<Load>,
    options: &Options,
    limit: Duration,
) -> anyhow::Result<(Run, Saturation)> {
    let mut search = Search { next: options.rate, low: None, high: None };
    let (mut best, mut last) = (None, None);
    for _ in 0..RUNS {
        let Some(rate) = search.next() else { break };
        let run = load.run(options, rate).await?;
        let sustains = run.sustains(limit);
        search.tried(rate, sustains);
        *(if sustains { &mut best } else { &mut last }) = Some(run);
    }
    let saturation = best.as_ref().map_or(Saturation::None, |best| Saturation::At(best.rate));
    let run = best.or(last).with_context(|| format!("a rate below {LOWEST} a second"))?;
    Ok((run, saturation))
}

impl Run {
    fn sustains(&self, limit: Duration) -> bool {
        let measured = &self.measured;
        let response = &measured.all.response.0;
        let p99 = Duration::from_micros(response.value_at_quantile(0.99));
        let errors = measured.held_back + measured.unanswered + measured.rejected();
        p99 <= limit && errors.saturating_mul(100) <= response.len()
    }
}

/// Which rate is tried next.
struct Search {
    next: f64,
    /// The highest rate that was sustained, and the lowest that was not.
    low: Option<f64>,
    high: Option<f64>,
}

impl Search {
    /// The next rate; `None` if the highest is known well enough.
    fn next(&self) -> Option<f64> {
        match (self.low, self.high) {
            (Some(low), Some(high)) if high - low <= low / PRECISION => None,
            _ if self.next < LOWEST => None,
            _ => Some(self.next),
        }
    }

    fn tried(&mut self, rate: f64, sustains: bool) {
        *(if sustains { &mut self.low } else { &mut self.high }) = Some(rate);
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

    fn search(next: f64) -> Search {
        Search { next, low: None, high: None }
    }

    #[test]
    fn the_search_ends_close_below_the_saturation() {
        for (first, limit) in [(1000.0, 1000.0), (1000.0, 37_123.0), (1000.0, 20.0), (1.0, 500.0)] {
            let (mut search, mut runs) = (search(first), 0);
            while let Some(rate) = search.next() {
                search.tried(rate, rate <= limit);
                runs += 1;
            }
            let found = search.low.expect("a rate that is sustained");
            assert!(found <= limit && found * 1.06 >= limit, "{found} for {limit}");
            assert!(runs <= RUNS, "{runs} runs");
        }
    }

    #[test]
    fn a_server_that_sustains_nothing_ends_the_search() {
        let mut search = search(1000.0);
        while let Some(rate) = search.next() {
            search.tried(rate, false);
        }
        assert_eq!(search.low, None);
    }
}
