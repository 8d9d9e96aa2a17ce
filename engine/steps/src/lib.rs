//! FTN12 AsyncSteps: business logic as a tree of non-blocking steps, without IO, clock, thread or
//! runtime.
//!
//! # The model
//!
//! A [`Flow`] is a queue of steps. A step is a callback that gets the interface, by convention
//! `asi`, and the result of the step before it. It may complete with a result, fail, wait for
//! something outside, or add sub-steps, which run after it returned and before the next step. So
//! a flow is a tree that grows while it runs (FTN12 §1.1).
//!
//! Each step may have an error handler, a time limit and a cancel handler. An error walks outwards
//! from the step that raised it until a handler recovers (§1.2).
//!
//! ```
//! use asyncsteps_core::{Flow, run_to_end};
//!
//! let mut flow = Flow::new();
//! flow.add(|asi, ()| {
//!     asi.add(|asi, ()| asi.error("OutOfStock", "no apples"));
//!     asi.add(|_, ()| unreachable!("the level is left"));
//! })
//! .on_error(|asi, error| match error.code() {
//!     "OutOfStock" => asi.success(("pears", 3)),
//!     _ => Ok(()), // not ours: it goes on to the handlers around
//! });
//! flow.add(|asi, (what, count): (String, u32)| asi.success(format!("{count} {what}")));
//! assert_eq!(run_to_end::<String>(flow).unwrap(), "3 pears");
//! ```
//!
//! Logic that runs often is prepared once as a [`Template`]; its flows share the steps (§1.5).
//!
//! # Hosting
//!
//! The engine computes and a host drives: it passes time and a waker to [`Execution::run`] and
//! learns whether the flow is done, waits, or wants another turn.
//!
//! ```
//! use std::task::Waker;
//! use std::time::Duration;
//! use asyncsteps_core::{Flow, Outcome, Progress, Time};
//!
//! let mut flow = Flow::new();
//! flow.add(|asi, ()| asi.set_timeout(Duration::from_millis(30)));
//! let mut execution = flow.execute();
//! assert!(matches!(execution.run(Time::ZERO, Waker::noop()), Progress::Waiting));
//! let deadline = execution.deadline().expect("it has a time limit");
//! let Progress::Done(Outcome::Error(error)) = execution.run(deadline, Waker::noop()) else {
//!     unreachable!("the limit expired")
//! };
//! assert_eq!(error.code(), "Timeout");
//! ```
//!
//! `asyncsteps-actors` is the host for actix.
//!
//! # Contents
//!
//! The [`guide`] leads from a first flow to locks and tests. Then, in reading order:
//! - configuring: [`Flow`], [`Template`], [`State`]
//! - inside callbacks: [`AsyncSteps`], [`Completion`], [`Interrupter`], [`Stack`], [`Error`], [`StepError`]
//! - options of a step: [`Added`], [`Retry`], [`Undo`], [`UndoPolicy`]; the context of an async
//!   body: [`RunContext`]
//! - arguments: [`Arguments`], [`Arg`], [`Args`]; arguments of other technologies: [`Foreign`]
//! - synchronisation: [`sync`]
//! - hosting: [`Execution`], [`Progress`], [`Time`], [`Canceller`], [`Observer`]; event loops and
//!   flows as futures: [`tool`];
//!   flows that go on in another process: [`replay`]
//! - testing: [`sim`]
//!
//! Feature `macros`: `#[derive(Code)]` for the errors of a domain.
#![forbid(unsafe_code)]

mod args;
mod ask;
mod completion;
mod contained;
mod error;
mod extensions;
mod flow;
pub mod gather;
mod inbox;
mod interface;
mod location;
mod machine;
mod observe;
mod outcome;
mod plan;
mod probe;
mod random;
pub mod replay;
mod retry;
mod shared_state;
pub mod sim;
mod sleep;
mod slot;
mod stack;
mod state;
pub mod sync;
mod template;
mod time;
pub mod tool;
mod undo;

#[doc = include_str!("docs/guide.md")]
pub mod guide {}

#[cfg(feature = "macros")]
pub use asyncsteps_macros::CoreCode as Code;

/// The names that `#[derive(Code)]` writes; the trait alone, without the macro.
#[cfg(feature = "macros")]
#[doc(hidden)]
pub mod derive {
    pub use crate::error::{Code, JsonOf, NoJson};
}

pub use ask::ask_step;

pub use args::{
    Arg, Args, ArgsMismatch, Arguments, Foreign, ForeignArgs, MAX_ARGS, Scalar, SendArguments,
};
pub use completion::{Canceller, Completion, Interrupter, Stale};
pub use error::{
    AwaitedResult, BodyResult, Code, Codes, Error, ErrorCode, ErrorExt, Info, RecordedError,
    StepError, StepResult, StepReturn, codes,
};
pub use flow::{
    Awaitable, BURST, Contention, Execution, Flow, FlowId, Identity, Outcome, Progress, Wait,
    WaitCause, WaitId, WaitReason, WaitResult, run_to_end,
};
pub use interface::{Added, AddedLoop, Collection, Parallel, RunContext, Untyped};
pub use location::StepLocation;
pub use observe::{Observer, StepEnd, StepRef, UndoneStep};
pub use outcome::Undo;
pub use plan::Replayable;
pub use retry::Retry;
pub use shared_state::SharedState;
pub use sleep::{Sleep, sleep, turn_time};
pub use stack::{AsyncSteps, Stack};
pub use state::{State, TemplateState};
pub use template::{Template, TemplateAdded, TemplateLoop, TemplateParallel, TemplateSteps};
pub use time::Time;
pub use undo::UndoPolicy;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
