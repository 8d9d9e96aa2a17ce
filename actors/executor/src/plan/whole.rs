//! The function as a whole, in a request that a host records.

use std::cell::Cell;
use std::panic::Location;
use std::rc::Rc;

use asyncsteps_core::replay::ReplayHooks;
use asyncsteps_core::{Args, AsyncSteps, StepResult};
use tokio::sync::oneshot;

use crate::recorder::{LevelEnd, RequestRecorder, StepRecorder, Sublevel};

/// Runs the steps of a function, which `start` adds, until they end or the host ends the request. They
/// are a branch in parallel to one that waits for the host, so they are cancelled and undone like any
/// branch.
pub(crate) fn run_whole(
    asi: &mut AsyncSteps,
    source: &'static Location<'static>,
    (request, function): (Rc<dyn RequestRecorder>, Rc<dyn StepRecorder>),
    start: impl FnOnce(&mut AsyncSteps) -> StepResult + 'static,
) {
    let result = Rc::new(Cell::new(Args::none()));
    // it learns whether the steps fail by themselves, or are cancelled
    let (given, inside) = (Rc::clone(&result), Rc::clone(&function) as Rc<dyn ReplayHooks>);
    let memory = Rc::clone(&function);
    let interrupted = request.interrupted();
    let (over, is_over) = oneshot::channel::<()>();
    asi.parallel(|branches| {
        branches
            .add(move |asi, ()| {
                asi.add(move |asi, ()| start(asi)).remembered(inside).located_at(source);
                asi.add(move |asi, last: Args| -> StepResult {
                    if request.interruption().is_some() {
                        // the other branch fails: nothing is sent to it
                        asi.wait_only();
                        return Ok(());
                    }
                    function.ended(&Sublevel::of(1), LevelEnd::All { is_final: false })?;
                    given.set(last);
                    let _ = over.send(());
                    Ok(())
                })
                .located_at(source);
            })
            .located_at(source);
        branches
            .await_(async move {
                tokio::select! {
                    biased;
                    Ok(()) = is_over => Ok(()),
                    error = interrupted => Err(error),
                }
            })
            .located_at(source);
    })
    .remembered(memory)
    .located_at(source);
    asi.add(move |asi, ()| asi.success(result.take())).located_at(source);
}
