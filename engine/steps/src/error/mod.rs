//! Flow errors (FTN12 §1.2, §1.7) and what callbacks return.

pub mod codes;
mod domain;
mod flow_error;
mod raised;

pub use domain::{Code, Codes};
pub use flow_error::{Error, ErrorCode, Info};
pub use raised::{AwaitedResult, ErrorExt, Fallible, Raised, StepResult, StepReturn};
pub(crate) use raised::{Fault, LoopEnd};
