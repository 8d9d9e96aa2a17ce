//! Recorded steps and waits as data.

use std::time::Duration;

use asyncsteps_actors::record::{Ending as Ended, Recorded, RecordedStep};
use asyncsteps_core::{StepLocation, Time, Wait, WaitReason};

use super::locks::LockWait;
use super::naming::Names;
use super::place::StepPlace;
use super::types::{Ending, RequestSteps, StepInfo, WaitInfo};

/// A time in milliseconds.
pub(super) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

impl From<&Recorded> for RequestSteps {
    fn from(recorded: &Recorded) -> Self {
        let mut steps = Vec::new();
        for step in &recorded.tree().steps {
            add(step, 0, recorded.length, &mut steps);
        }
        Self { length: ms(recorded.length), lost: recorded.lost, steps }
    }
}

/// Adds a step and those inside of it.
fn add(step: &RecordedStep, depth: usize, length: Duration, steps: &mut Vec<StepInfo>) {
    let (ending, error) = match &step.ended {
        None => (Ending::Open, None),
        Some((_, Ended::Error(error))) => (Ending::Error, Some(error)),
        Some((_, Ended::Cancelled)) => (Ending::Cancelled, None),
        Some((_, _)) => (Ending::Success, None),
    };
    steps.push(StepInfo {
        depth,
        flow: step.flow,
        branch: step.branch,
        attempt: step.attempt,
        place: step.location.into(),
        began: ms(step.began),
        took: ms(step.time(length)),
        ending,
        error: error.map(|error| error.code.to_string()),
        info: error.and_then(|error| error.info.clone()),
    });
    for inner in &step.steps {
        add(inner, depth + 1, length, steps);
    }
}

impl From<StepLocation> for StepPlace {
    fn from(location: StepLocation) -> Self {
        Self {
            name: location.name().map(str::to_owned),
            file: location.file().to_owned(),
            line: location.line(),
        }
    }
}

impl WaitInfo {
    /// A wait as it was at a time of its arbiter.
    pub(super) fn at(wait: &Wait, now: Time, names: &Names) -> Self {
        let reason = if let WaitReason::Until(at) = wait.reason {
            format!("{:.1} s to pass", at.saturating_since(now).as_secs_f64())
        } else {
            wait.reason.to_string()
        };
        Self {
            branch: wait.branch,
            steps: wait.stack.iter().map(|step| StepPlace::from(*step)).collect(),
            attempt: wait.attempt,
            attempts: None,
            awaits: None,
            cause: wait.cause.as_str().to_owned(),
            reason,
            lock: wait.contention.as_ref().map(|lock| LockWait::of(lock, names)),
            limited_by: wait.limited_by.map(StepPlace::from),
            limit: wait.limit.map(|limit| ms(limit.saturating_since(now))),
            limit_of: None,
        }
    }
}
