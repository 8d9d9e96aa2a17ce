//! The flow that runs undos, one after the other, the newest first.

use std::rc::Rc;

use crate::completion::Completion;
use crate::error::Error;
use crate::plan::{Body, Policies, Tries};
use crate::stack::{AsyncSteps, QueuedStep, UndoQueue, UndoWork, Undone};

/// A flow that runs the undos of this queue, and says when it has.
pub(crate) fn undo_flow(queue: Rc<UndoQueue<UndoWork>>, ended: Option<Completion>) -> AsyncSteps {
    let mut asi = AsyncSteps::root();
    asi.cold().undoes = Some(Rc::clone(&queue));
    asi.make_loop(move |asi| match queue.start_next() {
        Some((undone, work)) => {
            add(asi, undone, work);
            Ok(())
        }
        None => asi.break_loop(None),
    })
    .named("undo");
    asi.add(move |_, ()| {
        if let Some(ended) = ended {
            // the flow may have been ended from outside meanwhile
            let _ = ended.success(());
        }
    });
    asi
}

/// Adds the step that undoes another one. If it fails for good, the host is told, and the others go
/// on.
fn add(asi: &mut AsyncSteps, undone: Undone, work: UndoWork) {
    let UndoWork { body, timeout, retry } = work;
    let Undone { location, is_done } = undone;
    let tries = retry.map(Tries::new::<()>);
    let policies = Policies { tries, timeout: Some(timeout), ..Policies::default() };
    let step =
        QueuedStep::body(location, move |asi, args| policies.start(Body::Again(body), asi, args));
    let handler = move |asi: &mut AsyncSteps, error: &Error| {
        error.set_failed_undo(is_done);
        if error.panic_message().is_none() {
            asi.cold().unseen.push(error.clone());
        }
        asi.success(())
    };
    asi.queue(step.with_handler(Some(Box::new(handler))));
}
