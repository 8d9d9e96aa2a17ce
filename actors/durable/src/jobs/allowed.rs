//! What callers may do by `asyncsteps.jobs:1.0`.

/// A function of `asyncsteps.jobs:1.0` that changes something, for [`Jobs::allow`](super::Jobs::allow).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobsFunction {
    /// `submit`: stores a request of any durable function that is not
    /// [internal](asyncsteps_executor::Functions::internal) and that the caller may call.
    Submit,
    /// `cancel`: ends a job of the caller, for operators any; and `cancelAll`.
    Cancel,
    /// `signal`: sends a signal for which a step names the caller, with
    /// [`from`](asyncsteps_executor::plan::Step::from).
    Signal,
    /// `pause`, of operators.
    Pause,
    /// `resume` and `resumeAll`, of operators.
    Resume,
    /// `settle`, of operators.
    Settle,
    /// `undo`, of operators.
    Undo,
    /// `schedule`, of operators.
    Schedule,
    /// `unschedule`, of operators.
    Unschedule,
    /// `pauseSchedule`, of operators.
    PauseSchedule,
    /// `resumeSchedule`, of operators.
    ResumeSchedule,
    /// `triggerSchedule`, of operators.
    TriggerSchedule,
    /// `backfillSchedule`, of operators.
    BackfillSchedule,
    /// `erase`, of operators.
    Erase,
    /// `purge`, of operators.
    Purge,
}

impl JobsFunction {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::Submit,
        Self::Cancel,
        Self::Signal,
        Self::Pause,
        Self::Resume,
        Self::Settle,
        Self::Undo,
        Self::Schedule,
        Self::Unschedule,
        Self::PauseSchedule,
        Self::ResumeSchedule,
        Self::TriggerSchedule,
        Self::BackfillSchedule,
        Self::Erase,
        Self::Purge,
    ];

    /// Those that need an operator.
    pub const OF_OPERATORS: [Self; 12] = [
        Self::Pause,
        Self::Resume,
        Self::Settle,
        Self::Undo,
        Self::Schedule,
        Self::Unschedule,
        Self::PauseSchedule,
        Self::ResumeSchedule,
        Self::TriggerSchedule,
        Self::BackfillSchedule,
        Self::Erase,
        Self::Purge,
    ];
}
