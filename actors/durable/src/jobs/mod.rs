//! Durable requests for callers that do not wait for them: as the interface `asyncsteps.jobs:1.0`, over
//! any transport.
//!
//! **What it changes, it changes past the functions in front of the durable ones.** So a function that changes something
//! answers SecurityError unless it is [allowed](Jobs::allow), a signal is for the senders that its step
//! [names](asyncsteps_executor::plan::Step::from), and a function that is
//! [internal](asyncsteps_executor::Functions::internal) is not submitted.
//!
//! ```
//! use asyncsteps_durable::Durable;
//! use asyncsteps_durable::jobs::{Jobs, JobsFunction};
//! use asyncsteps_durable::journal::memory::Memory;
//! use asyncsteps_executor::Executor;
//!
//! # actix::System::new().block_on(async {
//! let durable = Durable::new(Memory::default());
//! let jobs = Jobs::new(durable).allow([JobsFunction::Submit, JobsFunction::Cancel]);
//! let executor = jobs.host(Executor::builder()).build()?;
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```
//!
//! | function | parameters | result |
//! |---|---|---|
//! | `submit` | `function`, `params`, `key`, `policy`, `tags`, `start`, `deadline` | the `uid` of the job, which runs to an end from now on; whether it is an `earlier` one with the key, and the `outcome` of that, empty if it has not ended |
//! | `status` | `uid` | [`JobStatus`]: what it does, and which effects stay although it did not come to a result |
//! | `result` | `uid`, `wait` | [`JobResult`]: how it ended, if it does so within the time |
//! | `events` | `uid`, `after` | what the job emits, as `text/event-stream` |
//! | `cancel` | `uid` | [`JobCancel`]: `requested`, or `tooLate` if it has ended or has begun what commits it |
//! | `signal` | `uid`, `name`, `value`, `id` | |
//! | `list` | `function`, `state`, `entities`, `user`, `key`, `tag`, `from`, `before`, `after`, `most` | [`JobList`], the oldest first |
//! | `cancelAll`, `resumeAll`, `purge` | as `list` without `entities`; `dry_run` | [`JobsChanged`]: to how many jobs it was done |
//! | `deadLetters` | `after`, `most` | [`JobList`] of the jobs that wait for an operator |
//! | `pause` | `uid` | |
//! | `resume` | `uid`, `how`: `continue`, `onItsVersion`, `again` | |
//! | `settle` | `uid`, `path`, `how`: `kept`, `undone`, `result`; `result`, `why` | |
//! | `undo` | `uid`, `path`, `why` | |
//! | `schedules` | `after`, `most` | [`JobSchedules`], by name |
//! | `schedule` | `name`, `function`, `params`, `cron`, `time_zone`, `overlap`, `catch_up`, `jitter` | the `schedule` as it is stored, a [`JobSchedule`] |
//! | `unschedule`, `pauseSchedule`, `resumeSchedule` | `name` | |
//! | `triggerSchedule` | `name` | the `uid` of the request that begins now |
//! | `backfillSchedule` | `name`, `from`, `until` | the `uids` of the requests of this range of times, at most a hundred, which begin unless they have |
//! | `erase` | `user` or `key` | [`JobsErased`]: how much was removed, and which jobs are left |
//!
//! Times are numbers of milliseconds, since 1970 where they are times of day. A `key` has 1 to 128 printable
//! ASCII characters; the header `Idempotency-Key` is one, and both are refused. Its `policy`, or the parameter of that
//! name in the header, says what is done if an earlier job has it: `return` answers with that, `rerun_failed` with a new
//! job if it has failed or was cancelled, and `reject` with the error `KeyTaken`, which names it. A `start` is at most 366 days ahead: a later one is rather a time in another unit, and
//! would stay in the journal.
//!
//! `events` is called by its URL, and answers with server-sent events (HTML §9.2) for who may see the `status`: `id` is the
//! number of an event, from the one after `after` or the header `Last-Event-ID`, `data` is JSON on one line, `event` is
//! `emit`, or `end` behind the last event of a job that has ended. A comment comes when nothing else
//! does for 15 s, or for half of the limit of requests. The
//! stream also ends, without an `end`, when the server closes. Nothing in events is redacted,
//! also for operators: what is [`Sensitive`](asyncsteps_executor::typed::Sensitive) belongs into a result.
//!
//! A `signal` is refused unless each step of the job that waits for this `name` lets the caller send it, whether the job
//! is the caller's or not. It is stored when it is answered: the step of the job that waits for this `name` takes the `value`, now or
//! when it comes to it. It is refused with `HasEnded` if the job has ended, and with `TooManySignals` if as many as the
//! [limits](crate::journal::Limits) allow, or as many bytes of them, have not been taken. A caller that repeats one because it got no answer gives
//! it an `id` of 32 hexadecimal digits: the same id is not stored again, as long as it waits or is among the last
//! [`TAKEN_SIGNALS`](crate::journal::limits::TAKEN_SIGNALS) that were taken.
//!
//! A `pause` drops the bodies of the job where they wait, and undoes nothing: the job waits for `resume`, see
//! [`Durable::pause`](crate::Durable::pause).
//!
//! Entities are flows of the journal too. A `list` has them if `entities` is true, and `deadLetters` those that wait for an
//! operator. A job with a record that cannot be read, such as one that is sealed with a lost key, answers `Unreadable`, for
//! operators with the reason; a `cancel` of it is stored all the same.
//!
//! A list has pages of up to 100 jobs, or `most` if that is less; `after` of the next one is `next` of the one before,
//! which is 0 at the end. `function`, `state` and the time of the submit (`from`, `before`) choose what is on the pages.
//! What the caller may not see, and jobs of others than the `user` (a local id), are left out of them, so a page that is
//! not the last one may have fewer jobs, or none.
//!
//! `cancelAll` cancels jobs that have not ended, `resumeAll` resumes jobs that wait for an operator, and `purge` removes
//! jobs that have ended, for the callers of `cancel`, `resume` and `erase`: see [`Durable::bulk`](crate::Durable::bulk). A
//! call changes up to 1,000 jobs, the oldest first, or `most` if that is less, in pieces between which the journal serves others;
//! the next call goes on behind `next`. With `dry_run`, which is always said, nothing is changed, and an operator gets the
//! `count` of up to 10,000.
//!
//! A `schedule` is kept in the journal, in place of one of its name, and its requests act for the operator who has
//! declared it last. Nodes of other processes read it within a minute. What [`Durable::schedule`](crate::Durable::schedule)
//! says of the program's own schedules holds for these: the next request is stored before its time. When the schedule is
//! replaced or removed, each node that knows of it cancels that request, unless it has begun: nodes of other processes
//! within a minute. The `status` of a job names its `schedule`. Schedules of the program are listed, paused
//! and resumed, and cannot be replaced or removed.
//!
//! `erase` removes what has ended and acts for the `user` (a local id), or has the `key` of a caller, with all that is
//! recorded of it, and the stored schedules of the user. Jobs that have not ended are left: `cancel` them, and erase
//! again when they have, see [`Durable::erase`](crate::Durable::erase).
//!
//! A job beyond the [quota](crate::Durable::waiting_per_caller) of its caller is refused with DefenseRejected.
//!
//! In the `result` of a job of another user, fields of the type
//! [`Sensitive`](asyncsteps_executor::typed::Sensitive) are `[redacted]`. It is null where the process that is asked
//! does not have the function.
//!
//! A caller sees and cancels what the same user has submitted or called, and a caller of the level of
//! [operators](Jobs::operators) everything. Callers without a user are refused, unless
//! [`callers`](Jobs::callers) admits `SecurityLevel::Anonymous`; then they count as one user.

mod allowed;
mod bulk;
mod erase;
mod events;
mod params;
mod schedules;
mod service;
mod signals;
mod submit;
mod types;

pub use allowed::JobsFunction;
pub use service::{Jobs, JobsError};
pub use types::{
    ClockJump, Job, JobCancel, JobList, JobResult, JobSchedule, JobSchedules, JobState, JobStatus,
    JobStep, JobsChanged, JobsErased,
};
