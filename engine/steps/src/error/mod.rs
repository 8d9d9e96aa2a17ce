//! Flow errors (FTN12 §1.2, §1.7) and what callbacks return.

pub mod codes;
mod domain;
mod flow_error;
#[cfg(feature = "macros")]
mod json;
mod raised;

pub use domain::{Code, Codes, RecordedError};
pub use flow_error::{Error, ErrorCode, Info};
#[cfg(feature = "macros")]
#[doc(hidden)]
pub use json::{JsonOf, NoJson};
pub use raised::{AwaitedResult, ErrorExt, Fallible, Raised, StepResult, StepReturn};
pub(crate) use raised::{Fault, LoopEnd};
