//! Running a scenario for many seeds, and the report of the one that fails.

use std::any::Any;
use std::error::Error as _;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::faults::FaultReport;
use super::{Options, Sim};
use crate::error::Error;

/// Runs a scenario once for each seed, in a simulation of its own.
///
/// The scenario starts flows, and may [`run`](Sim::run) them and check the results. Flows that it
/// leaves are run to their end. A range of seeds searches, such as `0..1000`; the one seed that
/// failed, such as `[17]`, replays the failure, because the same seed makes the same choices.
///
/// # Panics
/// With the report of the first failure: a panic of the scenario or of a callback, a flow that
/// waits for something that never comes, flows that all failed although the scenario looked at none
/// of them, or more turns than allowed. It names the seed. And if a fault by name struck in no run.
#[track_caller]
pub fn check(seeds: impl IntoIterator<Item = u64>, scenario: impl Fn(&Sim)) {
    check_with(&Options::default(), seeds, scenario);
}

/// [`check`] with options.
///
/// # Panics
/// As [`check`].
#[track_caller]
pub fn check_with(
    options: &Options,
    seeds: impl IntoIterator<Item = u64>,
    scenario: impl Fn(&Sim),
) {
    let mut faults = FaultReport::default();
    for seed in seeds {
        let sim = Sim::new(seed, options.clone());
        let result = catch_unwind(AssertUnwindSafe(|| {
            scenario(&sim);
            sim.finish();
        }));
        let report = result.err().map(|payload| report(&sim, &*payload));
        faults.add(&sim.0.faults);
        sim.clear();
        if let Some(report) = report {
            panic!("{report}");
        }
    }
    faults.check();
}

pub(super) fn report(sim: &Sim, payload: &(dyn Any + Send)) -> String {
    let mut report = format!(
        "the simulation with seed {seed} failed in turn {turn} at {now}; replay it with \
         `check([{seed}], ..)`\n{text}\n",
        seed = sim.seed(),
        turn = sim.turns(),
        now = sim.0.now.get(),
        text = text(payload),
    );
    for line in sim.trace() {
        // writing to a string cannot fail
        let _ = writeln!(report, "    {line}");
    }
    report
}

/// The message of a panic.
pub(super) fn text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&'static str>().copied())
        .unwrap_or("a panic without a message")
}

/// An error with its step and its causes.
pub(super) fn in_full(error: &Error) -> String {
    let mut text = error.to_string();
    let location = error.location().filter(|_| error.limit().is_none());
    if let Some(location) = location {
        text.push_str(&format!(", in the step {location}"));
    }
    let mut cause = error.source();
    while let Some(next) = cause {
        text.push_str(&format!(": {next}"));
        cause = next.source();
    }
    text
}
