//! Typed arguments: erased by `success`, restored by the next step (FTN12 §2.2.2).
//!
//! Up to four values travel as one erased tuple. The same type on both sides costs a type check;
//! a step that declares fewer values ignores the others; numbers and text convert where nothing is
//! lost; any other mismatch is an `InternalError` that names both types.
//!
//! - `erased.rs`: the erased values and the traits; `tuples.rs`: the types that implement them.
//! - `convert.rs`: conversions. `foreign.rs`: values of another technology.

mod convert;
mod erased;
mod foreign;
mod tuples;

pub use convert::Scalar;
pub(crate) use erased::SendArgs;
pub use erased::{Arg, Args, ArgsMismatch, Arguments, MAX_ARGS, SendArguments};
pub use foreign::{Foreign, ForeignArgs};

#[cfg(test)]
mod tests;
