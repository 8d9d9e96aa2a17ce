//! A flow that goes on after a crash comes to all that it has begun before it ends: until then time limits, errors
//! and cancels wait, and no effect begins where they do. One that does not come there waits for an operator.

use std::future::pending;
use std::rc::Rc;
use std::time::Duration;

use asyncsteps_actors::{clock, timer};
use asyncsteps_core::{Completion, Error, codes};
use asyncsteps_journal::{Event, POLL, Path};

use crate::activity::CATCH_UP;
use crate::flow::{Flow, LeaveReason};
use crate::records::{is_inside, is_part_of};

/// How often a time limit that has passed is looked at again while it waits.
const LOOK: Duration = Duration::from_millis(10);

/// The branch of a step at which it is recorded how often a lock has refused it since a crash.
const REFUSED: &str = "refused";

/// After this number of refusals the pause does not double any more.
const LONGEST_PAUSE: u32 = 8;

impl Flow {
    /// Whether an end of what is inside of the step at this path is too early: the flow has not come to something
    /// that it has begun there with an undo in an earlier run, or the step ended well in that run.
    pub(crate) fn is_held(&self, path: &Path) -> bool {
        let records = self.records.borrow();
        !self.is_left() && (records.has_ended(path) || records.awaited_within(path).is_some())
    }

    /// An end of what is inside of the step at this path waits, for so long or [`CATCH_UP`]: no effect begins
    /// there.
    pub(crate) fn hold(self: &Rc<Self>, path: &Path, limit: Duration) {
        if self.held.borrow_mut().insert(path.clone()) {
            let (flow, path) = (Rc::clone(self), path.clone());
            actix_rt::spawn(async move {
                let late = async {
                    tokio::select! {
                        () = flow.stuck_since_end(&path) => flow.leave(LeaveReason::Released),
                        () = timer::sleep_until(clock::now() + limit.max(CATCH_UP)) => {
                            flow.pause_stuck(&path);
                        }
                    }
                };
                flow.unless_caught_up(&path, late).await;
            });
        }
    }

    /// An error waits at the step at this path.
    pub(crate) fn hold_error(self: &Rc<Self>, path: &Path, error: &Error, held: Completion) {
        let refusal = (error.code() == codes::DEFENSE_REJECTED).then(|| format!("{path}: {error}"));
        if refusal.is_none() && self.records.borrow().has_ended(path) {
            let code = error.code();
            let why = format!("{path} ended well before a crash, and fails now with {code}");
            return self.leave(LeaveReason::Paused(why));
        }
        if refusal.is_some() {
            self.held.borrow_mut().insert(path.clone());
        } else {
            self.hold(path, CATCH_UP);
        }
        let (flow, path) = (Rc::clone(self), path.clone());
        actix_rt::spawn(async move {
            let late = async {
                let Some(reason) = refusal else { return pending().await };
                // a lock has no room: the flow comes to what it has begun when that has
                flow.activity.stuck().await;
                let pause = flow.next_try(&path);
                flow.leave(LeaveReason::Refused(pause, reason));
            };
            flow.unless_caught_up(&path, late).await;
            // the step may have been ended from outside meanwhile
            let _ = held.success(());
        });
    }

    /// How long the flow waits before it tries again what was refused at this path: longer each time. That is recorded,
    /// in place of the last time.
    fn next_try(&self, path: &Path) -> Duration {
        let path = path.branch(REFUSED);
        let (tries, before) = self.records.borrow_mut().take_tries(&path);
        let pause = POLL.saturating_mul(1 << tries.min(LONGEST_PAUSE)).min(CATCH_UP);
        let timer = self.clock().timer(pause, tries.saturating_add(2));
        self.record_for(&path, Event::Timer(timer), &before);
        pause
    }

    /// How long a time limit at this path that has passed goes on all the same.
    pub(crate) fn hold_limit(self: &Rc<Self>, path: &Path, of: Duration) -> Duration {
        if self.is_held(path) {
            self.hold(path, of);
            LOOK
        } else {
            Duration::ZERO
        }
    }

    /// Waits until the flow has come to all that it has begun inside of the step at this path.
    pub(crate) async fn caught_up(&self, path: &Path) {
        self.activity.until(|| !self.is_held(path)).await;
    }

    async fn unless_caught_up(&self, path: &Path, late: impl Future<Output = ()>) {
        tokio::select! {
            biased;
            _ = self.left() => {}
            () = self.caught_up(path) => {}
            () = late => {}
        }
    }

    /// Whether no effect may begin at this path any more, because an end of it waits.
    pub(crate) fn ends_around(&self, path: &Path) -> bool {
        self.is_ending() || self.held.borrow().iter().any(|outer| is_part_of(path, outer))
    }

    /// Whether all that is to end around this path goes on until then: the flow has not come to something that it has
    /// begun inside, or to the step whose recorded failure ends it.
    pub(crate) fn goes_on_around(&self, path: &Path) -> bool {
        let (records, held) = (self.records.borrow(), self.held.borrow());
        let is_awaited = |outer| records.awaited_within(outer).is_some();
        let root = Some(self.root()).filter(|_| self.is_ending());
        let mut ends = root.into_iter().chain(held.iter().filter(|outer| is_part_of(path, outer)));
        ends.all(is_awaited)
            && records
                .failures_around(path)
                .all(|(outer, failed)| is_inside(failed, outer) || is_awaited(outer))
    }

    /// Whether the step with sub-steps at this path is not entered any more, because one around it is to end or has
    /// failed: the flow has nothing to come to in it, nor behind it.
    pub(crate) fn stays_out(&self, path: &Path) -> bool {
        let records = self.records.borrow();
        let is_needed = if self.ends_around(path) {
            records.awaited_within(path).is_some()
        } else {
            !records.is_unwinding(path) || records.are_within(path)
        };
        path != self.root() && !is_needed && !records.is_in_ended(path)
    }

    /// What waited at this path, or inside, has come.
    pub(crate) fn let_go(&self, path: &Path) {
        self.held.borrow_mut().retain(|held| !is_part_of(held, path));
    }

    /// Completes when a flow whose end was decided while it ran does nothing any more, and has not come to what it has
    /// begun. A step that must not begin any more may have got the lock that is in the way. When the flow is loaded
    /// again, such a step knows that before it waits for the lock.
    async fn stuck_since_end(&self, path: &Path) {
        // not where an error waits
        if self.knew_end || !self.is_ending() || path != self.root() {
            pending::<()>().await;
        }
        self.activity.stuck().await;
        tracing::info!(flow = %self.uid(), "the flow is loaded again, to come to what it has begun before its end");
    }

    fn pause_stuck(&self, path: &Path) {
        let records = self.records.borrow();
        let Some(awaited) = records.awaited_within(path).cloned() else { return };
        drop(records);
        self.leave(LeaveReason::Paused(format!(
            "{path} is to end, and {awaited} was begun before a crash and has not been reached since"
        )));
    }
}
