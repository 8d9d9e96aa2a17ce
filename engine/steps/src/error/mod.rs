//! Flow errors (FTN12 §1.2, §1.7) and what callbacks return.

pub mod codes;
mod domain;
mod flow_error;
#[cfg(feature = "macros")]
mod json;
mod step_error;

pub use domain::{Code, Codes, RecordedError};
pub use flow_error::{Error, ErrorCode, Info};
#[cfg(feature = "macros")]
#[doc(hidden)]
pub use json::{JsonOf, NoJson};
pub use step_error::{AwaitedResult, BodyResult, ErrorExt, StepError, StepResult, StepReturn};
pub(crate) use step_error::{LoopEnd, StepFault};
