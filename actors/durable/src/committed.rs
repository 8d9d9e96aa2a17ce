//! Steps that commit their request, and steps that answer its callers: once one that commits has begun, no cancel and no
//! limit ends the request, unless the step fails; once one has answered, no limit of a caller does.
//!
//! This is recorded on the condition that the owner has seen each cancel. So of the record and a cancel the first one
//! wins: a cancel that is stored while no such step is recorded ends the request.

use std::future::pending;
use std::rc::Rc;

use asyncsteps_core::Error;
use asyncsteps_journal::record::{Done, Ending, Outcome};
use asyncsteps_journal::request::Condition;
use asyncsteps_journal::{Event, Path, Record, Value};

use crate::detached::detached;
use crate::flow::DurableFlow;
use crate::marks::COMMITTED;
use crate::records::failure_of;
use crate::writer::AppendAnswer;

fn record(step: &Path, ending: Ending) -> Record {
    let outcome = Outcome { winner: None, ending };
    Record::new(step.branch(COMMITTED), Event::Outcome(outcome))
}

impl DurableFlow {
    /// Records that the step at this path begins to commit. If the request is ended before, this never completes.
    pub(crate) async fn commits(self: Rc<Self>, path: Path) {
        let Ok(nothing) = Value::encode(&()) else { unreachable!("nothing can be written") };
        if !self.replay.borrow().commits_within(&path) {
            self.decides(record(&path, Ending::Completed(nothing))).await;
        }
    }

    /// Records that the step at this path answers the callers with its result. If the request is ended before, this never
    /// completes.
    pub(crate) async fn answers(self: Rc<Self>, path: Path, done: Done) {
        let flow = Rc::clone(&self);
        self.decides(Record::new(path, Event::Done(done))).await;
        flow.shared.waiters.notify(flow.owned.uid());
    }

    /// Records what no cancel ends any more. If one has ended the request before, this never completes.
    async fn decides(self: Rc<Self>, record: Record) {
        self.deciding.set(self.deciding.get() + 1);
        let flow = Rc::clone(&self);
        let decides = detached(async move {
            let is_recorded = flow.records_first(record).await;
            flow.deciding.set(flow.deciding.get() - 1);
            flow.activity.happens();
            is_recorded
        });
        if !decides.await {
            pending::<()>().await;
        }
    }

    async fn records_first(&self, record: Record) -> bool {
        loop {
            if self.is_left() || self.is_interrupted() {
                return false;
            }
            let seen = self.signals.changed.notified();
            let answer = self.owned.writer.append_last(|entry| {
                entry.records = vec![record.clone()];
                entry.condition = Condition::AllSeen;
            });
            match answer.await {
                (AppendAnswer::Written(_), ticket) => {
                    self.replay.borrow_mut().add_stored(vec![(ticket, record)]);
                    return true;
                }
                (AppendAnswer::Unseen, _) => {
                    // it may be a cancel
                    self.owned.writer.has_news();
                    tokio::select! {
                        biased;
                        () = seen => {}
                        _ = self.left() => return false,
                    }
                }
                (AppendAnswer::Stopped(stopped), _) => {
                    self.leave(stopped.into());
                    return false;
                }
            }
        }
    }

    /// The step at this path has failed: if it was to commit, the request may be ended again.
    pub(crate) fn commit_fails(&self, path: &Path, error: &Error) {
        if self.replay.borrow().levels.is(path, |level| level.commits) {
            let Record { path, event } = record(path, Ending::Failed(failure_of(error)));
            self.record(&path, [event]);
            self.activity.happens();
        }
    }

    /// Completes when it is known that no step commits the request, and none is about to answer.
    pub(crate) async fn uncommitted(&self) {
        self.activity
            .until(|| self.deciding.get() == 0 && !self.replay.borrow().is_committed())
            .await;
    }
}
