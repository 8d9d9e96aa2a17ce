//! The flow that runs undos, one after the other, the newest first.

use std::rc::Rc;

use crate::error::Error;
use crate::plan::{Body, Policies, Tries};
use crate::stack::{AsyncSteps, QueuedStep, UndoItem, UndoQueue, UndoWork, Undone};

/// A flow that runs the undos of this queue.
pub(crate) fn undo_flow(queue: Rc<UndoQueue<UndoWork>>) -> AsyncSteps {
    let mut asi = AsyncSteps::root();
    asi.policy_state().undoes = Some(Rc::clone(&queue));
    asi.make_loop(move |asi| match queue.start_next() {
        Some(UndoItem::Undo(undone, work)) => {
            add(asi, undone, work);
            Ok(())
        }
        Some(UndoItem::Tell(waiting)) => {
            // the step may have been ended from outside meanwhile
            let _ = waiting.success(());
            Ok(())
        }
        None => asi.break_loop(None),
    })
    .named("undo");
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
        let unseen = &mut asi.cold().unseen;
        if error.panic_message().is_some() {
            // it is there already, without this fact
            unseen.retain(|other| !other.is_same(error));
        }
        unseen.push(error.clone().of_undo(is_done));
        asi.success(())
    };
    asi.queue(step.with_handler(Some(Box::new(handler))));
}
