//! The figures that an executor keeps of its requests.

use std::collections::BTreeMap;
use std::time::Duration;

use asyncsteps_actors::latency::{Distribution, Latency};
use asyncsteps_actors::trace::TraceParent;
use parking_lot::Mutex;

use super::exemplars::{Exemplar, Exemplars};

/// The figures of an executor since it was built; returned by
/// [`Executor::figures`](crate::Executor::figures).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figures {
    /// The functions, by interface and name.
    pub functions: Vec<FunctionFigures>,
    /// Requests that did not get to a function, by code: those to unknown ones, with wrong credentials,
    /// or whose callers left before (`disconnected`).
    pub refused: BTreeMap<String, u64>,
}

/// The figures of one function.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "figures")]
pub struct FunctionFigures {
    /// Its full name, `iface:version:function`.
    pub function: String,
    /// The times from arrival to reply of all requests to it, including those that it refused.
    pub total: Distribution,
    /// Their times in the queue of the budget.
    pub queued: Distribution,
    /// Requests that were answered with an error, by its code, or whose callers left
    /// (`disconnected`).
    pub errors: BTreeMap<String, u64>,
    /// Requests of sampled traces that took as long as others: the last one of each bucket of `total`
    /// that had one.
    pub exemplars: Vec<Exemplar>,
}

/// Counts the requests to one function.
#[derive(Debug)]
pub(crate) struct FunctionCounts {
    total: Latency,
    queued: Latency,
    errors: ErrorCounts,
    exemplars: Exemplars,
}

/// Counts errors by code. Codes come from definitions and from FTN3, so there are few.
#[derive(Debug, Default)]
pub(crate) struct ErrorCounts(Mutex<BTreeMap<Box<str>, u64>>);

impl FunctionCounts {
    pub(crate) fn new() -> Self {
        let (total, queued) = (Latency::new(), Latency::new());
        Self { total, queued, errors: ErrorCounts::default(), exemplars: Exemplars::default() }
    }

    /// Counts a request that has ended; `error` is its code, or `disconnected`. One of a sampled trace
    /// is remembered as an exemplar.
    pub(crate) fn count(
        &self,
        total: Duration,
        queued: Duration,
        error: Option<&str>,
        trace: Option<TraceParent>,
    ) {
        self.total.count(total);
        self.queued.count(queued);
        if let Some(trace) = trace {
            self.exemplars.add(trace, total);
        }
        if let Some(code) = error {
            self.errors.count(code);
        }
    }

    pub(crate) fn figures(&self, function: String) -> FunctionFigures {
        FunctionFigures {
            function,
            total: self.total.distribution(),
            queued: self.queued.distribution(),
            errors: self.errors.figures(),
            exemplars: self.exemplars.all(),
        }
    }
}

impl ErrorCounts {
    pub(crate) fn count(&self, code: &str) {
        let mut counts = self.0.lock();
        match counts.get_mut(code) {
            Some(count) => *count += 1,
            None => drop(counts.insert(code.into(), 1)),
        }
    }

    pub(crate) fn figures(&self) -> BTreeMap<String, u64> {
        self.0.lock().iter().map(|(code, count)| (code.to_string(), *count)).collect()
    }
}
