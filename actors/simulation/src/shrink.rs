//! A failing run made smaller.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use crate::figures::Struck;
use crate::repeat::{FaultId, RepeatedRun};

/// How many runs it may take.
const MOST_RUNS: usize = 100;

/// How long it may take, but for the run that goes on then: who waits for it has the failure already, and a long test is
/// ended by a limit of its own.
pub(crate) const MOST_TIME: Duration = Duration::from_secs(60);

/// The last step when it looks for the time that a failure needs.
const LEAST_TIME: Duration = Duration::from_secs(1);

/// A run that failed.
#[derive(Clone, Debug)]
pub(crate) struct FailedRun {
    pub(crate) repeat: RepeatedRun,
    pub(crate) why: String,
    pub(crate) nodes: Vec<String>,
    pub(crate) struck: Vec<Struck>,
}

impl fmt::Display for FailedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: {}", self.repeat.seed, self.why)?;
        let left_out: Vec<_> = self.repeat.without.iter().map(String::as_str).collect();
        if !left_out.is_empty() {
            writeln!(f, "without {}", left_out.join(", "))?;
        }
        match self.struck.len() {
            0 => f.write_str("without any fault")?,
            count => write!(f, "{count} faults:")?,
        }
        self.struck.iter().try_for_each(|struck| write!(f, "\n  {struck}"))
    }
}

/// Looks for a run with fewer nodes, less time and fewer faults that fails as well; `run` returns how a run failed, and
/// `goes_on` whether another one may begin: it hears of the smallest run so far, and how many there were.
pub(crate) fn shrink(
    first: Box<FailedRun>,
    run: impl Fn(RepeatedRun) -> Option<Box<FailedRun>>,
    goes_on: impl FnMut(&FailedRun, usize) -> bool,
) -> Box<FailedRun> {
    let mut search = Search { best: first, run, goes_on, runs: 0, is_over: false };
    search.nodes();
    search.time();
    search.faults();
    search.time();
    search.best
}

struct Search<R, G> {
    best: Box<FailedRun>,
    run: R,
    goes_on: G,
    runs: usize,
    is_over: bool,
}

impl<R, G> Search<R, G>
where
    R: Fn(RepeatedRun) -> Option<Box<FailedRun>>,
    G: FnMut(&FailedRun, usize) -> bool,
{
    /// Takes a smaller run for the best one if it fails.
    fn fails(&mut self, smaller: RepeatedRun) -> bool {
        let failed = self.runs(smaller);
        failed.flatten().map(|failed| self.best = failed).is_some()
    }

    /// Whether a run holds. One that may not begin is not known to.
    fn holds(&mut self, run: RepeatedRun) -> bool {
        self.runs(run).is_some_and(|failed| failed.is_none())
    }

    /// Runs, and returns how that failed; `None` if the search is over.
    fn runs(&mut self, run: RepeatedRun) -> Option<Option<Box<FailedRun>>> {
        self.is_over |= self.runs == MOST_RUNS || !(self.goes_on)(&self.best, self.runs);
        if self.is_over {
            return None;
        }
        self.runs += 1;
        Some((self.run)(run))
    }

    /// Leaves nodes out. A cluster without them has to be right as long as nothing goes wrong: one without any node
    /// does nothing, which is another failure.
    fn nodes(&mut self) {
        for node in self.best.nodes.clone() {
            let mut smaller = self.best.repeat.clone();
            smaller.without.insert(node);
            let calm = RepeatedRun { only: Some(BTreeSet::new()), ..smaller.clone() };
            if self.holds(calm) {
                self.fails(smaller);
            }
        }
    }

    /// Looks for the shortest time with faults, by halves.
    fn time(&mut self) {
        // after the last fault nothing new happens
        let Some(last) = self.best.struck.iter().map(|struck| struck.at).max() else { return };
        let end = last + LEAST_TIME;
        let mut until = self.best.repeat.until.map_or(end, |until| until.min(end));
        let mut step = until / 2;
        while step >= LEAST_TIME {
            let smaller = RepeatedRun { until: Some(until - step), ..self.best.repeat.clone() };
            if self.fails(smaller) {
                until -= step;
            }
            step /= 2;
        }
    }

    /// Looks for faults that are not needed: halves, quarters and so on of all that struck.
    fn faults(&mut self) {
        let mut parts = 2;
        loop {
            let all: Vec<FaultId> = self.best.struck.iter().map(|struck| struck.id).collect();
            if all.is_empty() || self.is_over {
                return;
            }
            let size = all.len().div_ceil(parts);
            let found = all.chunks(size).any(|part| {
                let only: BTreeSet<_> =
                    all.iter().filter(|id| !part.contains(id)).copied().collect();
                self.fails(RepeatedRun { only: Some(only), ..self.best.repeat.clone() })
            });
            if found {
                parts = parts.max(3) - 1;
            } else if size == 1 {
                return;
            } else {
                parts *= 2;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::faults::NodeFault;

    /// A run fails if node a is there for twenty seconds and its faults 3 and 5 strike, and always without node c.
    fn fails(repeat: RepeatedRun) -> Option<Box<FailedRun>> {
        let until = repeat.until.unwrap_or(Duration::from_secs(100));
        let struck: Vec<Struck> = (0..10)
            .map(|count| Struck {
                id: FaultId { node: 0, count },
                at: Duration::from_secs(4 * count as u64),
                name: "a".to_owned(),
                fault: NodeFault::NotDone,
            })
            .filter(|struck| struck.at < until)
            .filter(|struck| repeat.only.as_ref().is_none_or(|only| only.contains(&struck.id)))
            .collect();
        let has = |count| struck.iter().any(|struck| struck.id.count == count);
        let is_there = !repeat.without.contains("a");
        let is_empty = repeat.without.contains("c");
        (is_empty || is_there && has(3) && has(5)).then(|| {
            let nodes = ["a", "b", "c"].map(str::to_owned).to_vec();
            Box::new(FailedRun { repeat, why: "no".to_owned(), nodes, struck })
        })
    }

    #[test]
    fn what_a_failure_does_not_need_is_left_out() {
        let first = fails(RepeatedRun::of(7)).expect("it fails");
        let smallest = shrink(first, fails, |_, _| true).repeat;
        let until = smallest.until.expect("it is over after the last fault");
        assert!((20..=22).contains(&until.as_secs()), "{until:?}");
        let rest = RepeatedRun { until: None, ..smallest };
        assert_eq!(rest.to_string(), "7 without=b only=0.3,0.5");
    }

    #[test]
    fn a_search_ends_when_it_may_not_go_on_with_the_smallest_run_so_far() {
        for most in 0..20 {
            let first = fails(RepeatedRun::of(7)).expect("it fails");
            let (runs, mut smallest) = (Cell::new(0), first.repeat.clone());
            let run = |repeat| {
                runs.set(runs.get() + 1);
                fails(repeat)
            };
            let found = shrink(first, run, |best, runs| {
                smallest = best.repeat.clone();
                runs < most
            });
            assert_eq!((runs.get(), found.repeat), (most, smallest));
        }
    }
}
