//! FTN12 AsyncSteps: business logic as a tree of non-blocking steps, without IO, clock, thread or
//! runtime.
#![forbid(unsafe_code)]

mod args;
mod completion;
mod error;
mod flow;
mod observe;
mod place;
mod state;
pub mod sync;
mod template;
mod time;

pub use args::{Arg, Args, Arguments, MAX_ARGS, Mismatch, SendArguments};
pub use completion::{Canceller, Completion, Stale};
pub use error::{Error, ErrorCode, ErrorExt, Info, Raised, StepResult, StepReturn, codes};
pub use flow::{
    Added, AddedLoop, AsyncSteps, BURST, Collection, Execution, Flow, FlowId, Identity, Outcome,
    Parallel, Progress, Stack, run_to_end,
};
pub use observe::{Observer, StepEnd, StepRef};
pub use place::Place;
pub use state::{State, TemplateState};
pub use template::{Template, TemplateAdded, TemplateParallel, TemplateSteps};
pub use time::Time;
