//! An operator has a step undone out of turn: its undo runs when the program has defined the step, and no effect begins
//! before that.

use std::future::pending;
use std::rc::Rc;

use asyncsteps_actors::{clock, timer};
use asyncsteps_executor::recorder::{DefinedStep, HostUndo};
use asyncsteps_journal::record::{Done, TakenSignal};
use asyncsteps_journal::request::StoredSignal;
use asyncsteps_journal::{Event, Path, Value};

use crate::activity::CATCH_UP;
use crate::flow::{Flow, LeaveReason};
use crate::records::{Defined, End};
use crate::settled::Settled;
use crate::stored::stored;

impl Flow {
    /// Takes in what operators have said while the flow was paused.
    pub(crate) fn take_settled(self: &Rc<Self>) {
        let said = self.take_signals(|signal| Settled::path_in(signal).is_some());
        for signal in said {
            let Some(path) = Settled::path_in(&signal) else { continue };
            let StoredSignal { number, name, value } = signal;
            self.record(&path, [Event::Signal(TakenSignal { number, name, value })]);
        }
        if self.ordered().is_none() {
            return;
        }
        let flow = Rc::clone(self);
        actix_rt::spawn(async move {
            tokio::select! {
                biased;
                _ = flow.left() => {}
                () = flow.orders_done() => {}
                () = timer::sleep_until(clock::now() + CATCH_UP) => {
                    if let Some(path) = flow.ordered() {
                        flow.leave(LeaveReason::Paused(flow.order_not_done(&path)));
                    }
                }
            }
        });
    }

    /// Why the step at this path, which an operator has had undone, is not.
    fn order_not_done(&self, path: &Path) -> String {
        match self.records.borrow().not_undone(path) {
            Some(why) => format!("{path} cannot be undone: {why}"),
            None => format!("{path} is to be undone, and the program does not come to it"),
        }
    }

    fn ordered(&self) -> Option<Path> {
        self.records.borrow().ordered().cloned()
    }

    /// Keeps the undo of a step for an order. Steps that were not ordered are not kept: the undo keeps the request.
    pub(crate) fn keep_undo(&self, step: &Rc<DefinedStep>, undo: HostUndo) {
        if self.records.borrow().ordered().is_some() {
            self.undos.borrow_mut().push((Rc::clone(step), undo));
        }
    }

    /// Runs the undos of those of these steps that are to be undone.
    pub(crate) fn carry_out_orders(self: &Rc<Self>, steps: &[Defined]) {
        let kept = self.undos.take();
        for (step, path) in steps {
            if !self.records.borrow().is_ordered(path) {
                continue;
            }
            match kept.iter().find(|(of, _)| Rc::ptr_eq(of, step)) {
                Some((_, undo)) => {
                    let (flow, path, undo) = (Rc::clone(self), path.clone(), Rc::clone(undo));
                    actix_rt::spawn(async move { flow.undo_ordered(&path, &undo).await });
                }
                None => self.leave(LeaveReason::Paused(format!(
                    "{path} is to be undone, and the program has no undo for it ({})",
                    step.source
                ))),
            }
        }
    }

    async fn undo_ordered(self: &Rc<Self>, path: &Path, undo: &HostUndo) {
        let _body = self.activity.body(true);
        let end = self.records.borrow().at(path).and_then(|at| at.end.clone());
        let stored = match end {
            Some(End::Done(value)) => Some(stored(&value)),
            Some(End::Failed(_)) | None => None,
        };
        self.begins_undo(path);
        let undone = async {
            self.stored().await;
            undo(stored).await
        };
        let undone = tokio::select! {
            biased;
            _ = self.left() => return,
            undone = undone => undone,
        };
        match (undone, Value::encode(&())) {
            (Ok(()), Ok(value)) => {
                self.ends_undo(path, Done { value, attempt: 1, millis: 0 });
                self.activity.happens();
            }
            (Ok(()), Err(_)) => unreachable!("nothing can be written"),
            (Err(error), _) => {
                self.undo_fails(path, &error);
                self.leave(LeaveReason::Paused(self.order_not_done(path)));
            }
        }
    }

    /// Completes when all that operators have had undone is; never, if the flow is left before.
    pub(crate) async fn orders_done(&self) {
        self.activity.until(|| self.records.borrow().ordered().is_none()).await;
        if self.is_left() {
            pending::<()>().await;
        }
    }
}
