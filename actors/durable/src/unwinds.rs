//! Unwinding after a step with sub-steps has failed: the steps inside are undone, in this run if it has come to all
//! that earlier runs have begun there, and otherwise from the records.

use std::time::Duration;

use asyncsteps_core::{Error, codes};
use asyncsteps_executor::plan::StepView;
use asyncsteps_executor::recorder::WrongSteps;
use asyncsteps_journal::record::Unwinding;
use asyncsteps_journal::{Event, POLL, Path};

use crate::away::is_away;
use crate::causes::cause_of;
use crate::flow::DurableFlow;
use crate::life::LeaveReason;
use crate::records::failure_of;

/// The branch of a step at which it is recorded how often it was put aside, and since when.
const REFUSED: &str = "refused";

/// After this number of refusals the pause does not double any more.
const LONGEST_PAUSE: u32 = 8;

/// How long the pause after a refusal is at the most: what is away for hours is asked a few times in ten minutes, and
/// what waits for it goes on soon enough.
const LONGEST: Duration = Duration::from_secs(120);

impl DurableFlow {
    /// The steps inside of the step at this path are undone from now on, because of this error: of the step that failed
    /// last inside, or of `itself`.
    pub(crate) fn unwinds(&self, step: &StepView, path: &Path, itself: &Path, error: &Error) {
        let records = self.replay.borrow();
        if records.at(path).is_some_and(|at| at.failed.is_some()) {
            return;
        }
        if let Some(WrongSteps(mistake)) = error.find()
            && records.have_steps_within(&self.root)
        {
            let reason = format!("{path}: {mistake}");
            drop(records);
            return self.leave(LeaveReason::Paused(reason));
        }
        let (has_ended, is_ahead) =
            (records.has_ended(path), records.awaited_within(path).is_some());
        drop(records);
        if has_ended && is_away(error) || is_ahead && error.code() == codes::DEFENSE_REJECTED {
            // a lock has no room: the flow comes to the steps that it has begun when there is room
            return self.leave(self.tries_again(path, format!("{path}: {error}")));
        }
        if has_ended {
            let code = error.code();
            let why = format!("{path} ended well before a crash, and fails now with {code}");
            return self.leave(LeaveReason::Paused(why));
        }
        let failed =
            self.replay.borrow().last_failed_within(path).unwrap_or_else(|| itself.clone());
        let cause = cause_of(step, &failed, error);
        let unwinding = Unwinding { failed, failure: failure_of(error), cause };
        self.record(path, [Event::Unwinding(unwinding)]);
        if is_ahead {
            // it is loaded again, and undoes that from the records
            self.leave(LeaveReason::Released);
        }
    }

    /// The flow is put aside, and retries the step at this path after a while: longer each time. That is recorded, in
    /// place of the last time, with the time at which it began to wait. It retries before the end of a limit.
    pub(crate) fn tries_again(&self, path: &Path, why: String) -> LeaveReason {
        let (path, now) = (path.branch(REFUSED), self.clock().time_of_day());
        let (tries, since, before) = self.replay.borrow_mut().take_tries(&path);
        let since = since.unwrap_or(now);
        let pause = POLL.saturating_mul(1 << tries.min(LONGEST_PAUSE)).min(LONGEST);
        let until_limit = self.until_limit().filter(|left| !left.is_zero());
        let pause = until_limit.map_or(pause, |left| pause.min(left));
        self.record_for(&path, Event::Timer(since), &before);
        self.record(&path, [Event::Timer(self.clock().timer(pause, tries.saturating_add(2)))]);
        let since = i64::try_from(since.at.as_millis()).map(jiff::Timestamp::from_millisecond);
        let since = since.ok().and_then(Result::ok).unwrap_or_default();
        LeaveReason::Refused(pause, format!("waits since {since:.0}: {why}"))
    }
}
