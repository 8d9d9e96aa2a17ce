//! Cutting a flow everywhere: one run for each moment at which it could be ended from outside.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::check::{in_full, report};
use super::faults::FaultReport;
use super::plan::{Cut, CutPlan};
use super::{Options, Sim};
use crate::flow::{Flow, Outcome};

/// Cancels a flow at every moment of its run, one run for each; [`cut_everywhere`] with
/// [`Cut::Cancel`] and the default options.
///
/// ```
/// use std::cell::Cell;
/// use std::rc::Rc;
/// use asyncsteps_core::{Flow, Undo, sim};
///
/// sim::cancel_everywhere([1], |_| {
///     let charges = Rc::new(Cell::new(0));
///     let (charge, refund) = (Rc::clone(&charges), Rc::clone(&charges));
///     let mut flow = Flow::new();
///     flow.run(async move |()| {
///         charge.set(charge.get() + 1);
///         Ok(charge.get())
///     })
///     .undo(async move |_: Undo<&i32>| {
///         refund.set(0);
///         Ok(())
///     });
///     flow.add(|asi, _: i32| {
///         asi.sleep(std::time::Duration::from_millis(5));
///     });
///     (flow, move |outcome| match outcome {
///         asyncsteps_core::Outcome::Success(_) => assert_eq!(charges.get(), 1),
///         _ => assert_eq!(charges.get(), 0, "what was charged is refunded"),
///     })
/// });
/// ```
///
/// # Panics
/// As [`cut_everywhere`].
#[track_caller]
pub fn cancel_everywhere<C: FnOnce(Outcome)>(
    seeds: impl IntoIterator<Item = u64>,
    scenario: impl Fn(&Sim) -> (Flow, C),
) {
    cut_everywhere(&Cut::Cancel, &Options::default(), seeds, scenario);
}

/// Cuts a flow at every moment of its run: runs it once to its end, and then once for each moment of
/// that run, each time in a simulation of its own. So a test proves in one line that a flow is undone
/// wherever it ends.
///
/// The scenario makes the flow and its check, with fresh state for each run. The first run is not cut: in it the flow
/// has to succeed, unless a fault of the scenario, such as [`Sim::fail`], strikes in it. The moments are: before each
/// step, after it, when it begins to wait, and when its wait has ended; for [`Cut::Error`], each start of a body and
/// each wait; for [`Cut::Undo`], each wait of an undo, so there a fault makes the flow fail. Each run goes on until
/// undos and launched flows have ended as well, then the check receives the outcome of the flow, in the first run too.
/// [`Cut::Drop`] has the outcome of a cancelled flow.
///
/// # Panics
/// With the report of the first failure, see [`check`](super::check()); it names the seed, and the
/// steps that were in progress when the flow was cut. If the flow fails when it is not cut. If a
/// fault by name struck in no run. And if there was no moment in any run.
#[track_caller]
pub fn cut_everywhere<C: FnOnce(Outcome)>(
    cut: &Cut,
    options: &Options,
    seeds: impl IntoIterator<Item = u64>,
    scenario: impl Fn(&Sim) -> (Flow, C),
) {
    let (mut faults, mut count) = (FaultReport::default(), 0);
    for seed in seeds {
        let sim = || Sim::new(seed, options.clone());
        let moments = cut_once(cut, None, &sim(), &mut faults, &scenario).passed;
        count += moments;
        for at in 0..moments {
            let plan = cut_once(cut, Some(at), &sim(), &mut faults, &scenario);
            if plan.place.is_none() {
                break;
            }
        }
    }
    faults.check();
    assert!(count > 0, "there was no moment at which {cut} could cut the flow");
}

/// Runs the flow and cuts it at the plan's moment, if it gets there; returns what became of the
/// plan.
#[track_caller]
fn cut_once<C: FnOnce(Outcome)>(
    cut: &Cut,
    at: Option<u64>,
    sim: &Sim,
    faults: &mut FaultReport,
    scenario: impl Fn(&Sim) -> (Flow, C),
) -> CutPlan {
    let result = catch_unwind(AssertUnwindSafe(|| {
        let (flow, check) = scenario(sim);
        let plan = |flow| CutPlan { flow, cut: cut.clone(), at, passed: 0, place: None };
        let started = sim.start_cut(flow, plan);
        sim.run();
        let Some(outcome) = started.take_outcome() else { unreachable!("every flow is over") };
        if at.is_none() && !sim.0.faults.have_struck() {
            assert_succeeds(&outcome);
        }
        check(outcome);
    }));
    let plan = sim.0.cut.borrow_mut().take();
    let place = plan.as_ref().and_then(|plan| plan.place.as_deref());
    let failure = result.err().map(|payload| {
        let place = place.zip(at).map_or_else(
            || "was not cut".to_owned(),
            |(place, at)| format!("was cut by {cut} at moment {at}, {place}"),
        );
        format!("the flow {place}\n{}", report(sim, &*payload))
    });
    faults.add(&sim.0.faults);
    sim.clear();
    match (failure, plan) {
        (Some(failure), _) => panic!("{failure}"),
        (None, Some(plan)) => plan,
        (None, None) => unreachable!("the flow was started with a plan"),
    }
}

/// Checks that a flow succeeds when it is not cut, because what happens when it is cut proves little
/// otherwise.
fn assert_succeeds(outcome: &Outcome) {
    let how = match outcome {
        Outcome::Success(_) => return,
        Outcome::Error(error) => format!("fails: {}", in_full(error)),
        Outcome::Cancelled => "is cancelled".to_owned(),
    };
    panic!("a flow that is to be cut everywhere has to succeed when it is not cut, but it {how}");
}
