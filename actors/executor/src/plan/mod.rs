//! Functions as plans: a tree of steps that is built once, and that every request goes through (FTN12 §1.5).
//!
//! - `steps.rs`: [`Steps`], where steps begin; `step.rs`: [`Step`], a step as a value, and what is said about it.
//! - `join.rs`, `each.rs`, `race.rs`: several steps at once; `choice.rs`: ways, steps for some requests, early ends;
//!   `repeat.rs`: loops; `asi.rs`: steps as FTN12 has them.
//! - `node.rs`: the plan; `facts.rs`, `step_view.rs`: what is known of a step before it runs, also for the host of requests; `checks.rs`: what holds for plans of durable
//!   functions; `mistake.rs`: what is wrong with a plan.
//! - `work.rs`: what a step of a plan does when a request comes to it; `locks.rs`: what it holds; `undo_body.rs`: how it is
//!   undone; `undo.rs`: undo from the plan and from records; `taken.rs`, `read.rs`: what is recorded of a step.
//! - `context.rs`: the context of a step; `of_request.rs`: what the steps of a request share; `cx.rs`: what bodies get; `given.rs`: what closures get that choose; `random.rs`: their random numbers; `place.rs`, `around.rs`: where a step is, in its plan
//!   and in a request.
//! - `recording.rs`: what a step says for requests that a host [records](crate::recorder); `waits.rs`, `transacted.rs`,
//!   `retired.rs`: steps for those; `sender.rs`: who sends signals; `recorded.rs`, `whole.rs`: what is recorded of a request.
//! - `service.rs`: the [`Service`] whose functions share its state; `function.rs`, `handler.rs`: what can handle a
//!   function, and its plan; `answer.rs`: how long callers wait.
//! - `data.rs`, `describe.rs`: the plan as data; `text.rs`, `mermaid.rs`: for people to read; `form.rs`: the kinds of steps.

mod answer;
mod answered;
mod around;
mod asi;
mod checks;
mod choice;
mod context;
mod cx;
mod data;
mod describe;
mod each;
mod emits;
mod facts;
mod form;
mod function;
mod given;
mod handler;
mod join;
mod locks;
mod mermaid;
mod mistake;
mod node;
mod of_request;
mod place;
mod race;
mod random;
mod read;
mod recorded;
mod recording;
mod repeat;
mod retired;
mod returns;
mod sender;
mod service;
mod step;
mod step_view;
mod steps;
mod taken;
mod text;
mod transacted;
mod undo;
mod undo_body;
mod waits;
mod whole;
mod work;

pub use crate::executor::{FunctionResult, Written};
pub use answer::AnswerWithin;
pub use answered::Answers;
pub use choice::Either;
pub use cx::Cx;
pub use data::{FunctionKind, Plan, PlanChild, PlanRetry, PlanStep};
pub use emits::Emits;
pub use facts::StepView;
pub use form::{ChildPolicy, Form, UndoForm};
pub(crate) use function::typed;
pub use function::{Built, FunctionOf, Handler};
pub use given::Given;
pub use handler::{Awaits, FirstInput, Plans};
pub use join::{Branches, Parts};
pub(crate) use mistake::Mistake;
pub use of_request::GivenState;
pub use retired::Retired;
pub use returns::IntoReturns;
pub use sender::{MaySend, Sender, SenderOf};
pub use service::Service;
pub use step::{Early, EndsAs, Erased, Never, OrEnd, Returns, Step};
pub use step_view::Planned;
pub use steps::Steps;
