//! The policies of a step: the options behind it, such as `retry` or `timeout`.
//!
//! They are kept next to the body and looked at when the step starts. They nest in a fixed order,
//! whatever the order of writing: lock, attempts, limiter, time limit, body.
//!
//! - `policies.rs`: the options, for steps of flows and of templates.
//! - `planned.rs`: a step that has policies starts. `attempt.rs`: one attempt of it. `body.rs`: its
//!   body.
//! - `attempts.rs`: it is tried again, as its [`Retry`](crate::Retry) says. `shield.rs`: it runs where
//!   nothing outside cancels it. `recalled.rs`: it ended in an earlier run of the flow.

mod attempt;
mod attempts;
mod body;
mod planned;
mod policies;
mod recalled;
mod shield;

pub(crate) use body::{Chosen, PlannedBody};
pub(crate) use planned::StepWithPolicies;
pub use policies::Replayable;
pub(crate) use policies::{AttemptPolicies, Policies, RetryPolicy, SharedPolicies};
