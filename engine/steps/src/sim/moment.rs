//! The moments of a flow at which a simulation may cut it.

use super::plan::Cut;
use super::world::World;
use crate::error::Error;
use crate::flow::{Execution, Outcome};

impl World {
    /// A moment of the flow that is to be cut: cuts it if this is the one.
    pub(super) fn pass_moment(&self, flow: usize) {
        let cut = {
            let flows = self.flows.borrow();
            let Some(execution) = &flows[flow].execution else { return };
            let mut plan = self.cut.borrow_mut();
            let Some(plan) = &mut *plan else { return };
            match plan.cut.clone() {
                Cut::Error(error) => {
                    let mut strands = execution.waiting_strands().into_iter();
                    let victim = strands.find(|_| plan.pass(|| place(execution)).is_some());
                    victim.map(|victim| CutTarget::Wait(victim, error))
                }
                // the moments of `Undo` are inside undos
                Cut::Undo => None,
                Cut::Cancel | Cut::Drop | Cut::Timeout => {
                    plan.pass(|| place(execution)).map(CutTarget::Whole)
                }
            }
        };
        match cut {
            None => {}
            Some(CutTarget::Wait(strand, error)) => {
                let now = self.now.get();
                self.interrupt(flow, |execution| execution.fail_wait(strand, error, now));
            }
            Some(CutTarget::Whole(cut)) => self.cut_flow(flow, &cut),
        }
    }

    fn cut_flow(&self, flow: usize, cut: &Cut) {
        match cut {
            Cut::Timeout => {
                let now = self.now.get();
                self.interrupt(flow, |execution| execution.expire(now));
            }
            Cut::Drop => {
                self.abandon(flow);
                self.flows.borrow_mut()[flow].outcome = Some(Outcome::Cancelled);
            }
            Cut::Cancel | Cut::Error(_) | Cut::Undo => self.cancel(flow),
        }
    }
}

/// The target of a cut.
enum CutTarget {
    /// The flow.
    Whole(Cut),
    /// The step that waits in a strand.
    Wait(u32, Error),
}

/// The steps in progress, for the report of a failure.
fn place(execution: &Execution) -> String {
    let stack = execution.stack();
    if stack.is_empty() { "between steps".to_owned() } else { format!("in {stack:?}") }
}
