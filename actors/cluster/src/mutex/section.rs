//! Holding a lock in a flow, for as long as a step and its undo (FTN12 §1.11.3).

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use asyncsteps_actors::sync::HeldFence;
use asyncsteps_core::sync::{ISync, Section};
use asyncsteps_core::{AsyncSteps, Error, Interrupter, StepResult};

use super::Mutex;
use crate::cluster::Cluster;
use crate::hold::Hold;
use crate::lease_term::Registration;
use crate::node;

/// The step's hold on the lock; dropped when the step and everything inside of it have ended.
#[derive(Clone)]
struct SectionGuard(Rc<RefCell<Option<TakenLock>>>);

struct TakenLock {
    _hold: Arc<Hold>,
    _registration: Option<Registration>,
    // the node's tasks run as long as a lock is held
    _cluster: Cluster,
}

impl ISync for Mutex {
    fn sync(&self, asi: &mut AsyncSteps, section: Section) -> StepResult {
        let mutex = self.clone();
        // the queue of this node, then the lock of the cluster
        let section = section.within(asi, move |asi, section| mutex.enter(asi, section));
        self.local.sync(asi, section)
    }
}

impl Mutex {
    /// Enters for the running step, which has its turn on this node.
    fn enter(self, asi: &mut AsyncSteps, section: Section) -> StepResult {
        let (held, fence) = (SectionGuard(Rc::default()), HeldFence::default());
        asi.hold_named(held.clone());
        asi.stack(fence.clone());
        if let Some(hold) = self.hold() {
            // entered again: the step around this one is interrupted if the lock is lost
            if !hold.term().is_valid() {
                return Err(hold.term().lost().into());
            }
            self.keep(&held, &fence, hold, None);
            return section.enter(asi);
        }
        let (regains, of_step, its_fence) = (self.clone(), held.clone(), fence.clone());
        asi.regain(async move || {
            drop(of_step.0.take());
            let hold =
                node::take(regains.cluster.node(), &regains.id).await.map_err(Error::from)?;
            regains.keep(&of_step, &its_fence, hold, None);
            Ok(())
        });
        let interrupter = asi.interrupter();
        let name = self.id.name;
        asi.add_inner(move |asi, ()| {
            asi.await_in_place(async move {
                let hold = node::take(self.cluster.node(), &self.id).await?;
                self.keep(&held, &fence, hold, Some(interrupter));
                Ok::<_, Error>(())
            });
        })
        .named(name);
        section.add(asi);
        Ok(())
    }

    /// Makes the step hold the lock from now on.
    fn keep(
        &self,
        held: &SectionGuard,
        fence: &HeldFence,
        hold: Arc<Hold>,
        interrupter: Option<Interrupter>,
    ) {
        fence.set(hold.fence());
        let registration = interrupter.map(|section| hold.term().register(section));
        let cluster = self.cluster.clone();
        let taken = TakenLock { _hold: hold, _registration: registration, _cluster: cluster };
        held.0.replace(Some(taken));
    }
}
