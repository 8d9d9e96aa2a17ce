//! Functions as plans: a tree of steps that is built once, and that every request goes through (FTN12 §1.5).
//!
//! - `steps.rs`: [`Steps`], where steps begin; `step.rs`: [`Step`], a step as a value, and what is said about it.
//! - `join.rs`, `each.rs`, `race.rs`: several steps at once; `choice.rs`: ways, steps for some requests, early ends;
//!   `repeat.rs`: loops; `asi.rs`: steps as FTN12 has them.
//! - `node.rs`: the plan; `work.rs`: what a step of it does when a request comes to it.
//! - `cx.rs`: what bodies get; `random.rs`: their random numbers; `place.rs`, `around.rs`: where a step is, in its plan
//!   and in a request.
//! - `recording.rs`: what a step says for requests that a host [records](crate::recorder); `waits.rs`, `transacted.rs`,
//!   `retired.rs`: steps for those; `recorded.rs`, `whole.rs`: what is recorded of a request.
//! - `handler.rs`: the plan of a function of an executor.
//! - `data.rs`, `describe.rs`: the plan as data; `text.rs`, `mermaid.rs`: for people to read; `form.rs`: the kinds of steps.

mod around;
mod asi;
mod choice;
mod cx;
mod data;
mod describe;
mod each;
mod form;
mod handler;
mod join;
mod mermaid;
mod node;
mod place;
mod race;
mod random;
mod recorded;
mod recording;
mod repeat;
mod retired;
mod step;
mod steps;
mod text;
mod transacted;
mod waits;
mod whole;
mod work;

pub use crate::executor::{FunctionResult, Written};
pub use choice::Either;
pub use cx::Cx;
pub use data::{FunctionKind, Plan, PlanRetry, PlanStep};
pub use form::{Form, UndoForm};
pub use handler::{Awaits, FirstInput, Plans};
pub use join::{AsBranch, Branches, Parts};
pub(crate) use node::Mistake;
pub use retired::Retired;
pub use step::{Early, EndsAs, Erased, Never, OrEnd, Returns, Step};
pub(crate) use steps::AnswerLimit;
pub use steps::Steps;
pub(crate) use whole::run_whole;
