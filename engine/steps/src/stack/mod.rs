//! The step stack (FTN12 §1.1): which steps are in progress, and which come next.
//!
//! A [`Strand`] is one line of execution: the root has one, and so has each parallel branch. Its
//! innermost step is `top`, the steps around it are in `frames`. Only the running step can add
//! steps, so one vector holds the queues of all levels: the queue of a step begins at its `base`
//! and is in reverse order, so that the next step is the last element.
//!
//! - `shapes.rs`: the types. They refer to each other, because a callback gets the interface and
//!   the interface owns the callbacks that are still to run.
//! - `strand.rs`, `queued.rs`, `branches.rs`: the operations of these types.
//! - `walk.rs`: the strands and steps around a step.
//! - `strands.rs`, `turns.rs`, `timers.rs`, `values.rs`, `undo.rs`: tables that a flow gets when it needs them.
//!   `step_undo.rs`: the outcome of a step that can be undone. `shielded.rs`: bodies that go on without their steps.
//!   `undo_queue.rs`: the undos that other flows run for it, `undo_order.rs` their order. `branch_path.rs`: where a
//!   branch is.

mod about;
mod branch_path;
mod branches;
mod queued;
mod shapes;
mod shielded;
mod step_undo;
mod strand;
mod strands;
mod timers;
mod turns;
mod undo;
mod undo_order;
mod undo_queue;
mod values;
mod walk;

pub(crate) use branch_path::BranchPath;
pub(crate) use branches::NextBranch;
pub use shapes::AsyncSteps;
pub(crate) use shapes::{
    About, Activity, Callback, Expired, Flags, Frame, Handler, Iterate, ParallelBranches,
    QueueItem, QueuedStep, RepeatedWork, Retrying, Role, SharedBody, SharedHandler, SharedSteps,
    StepFuture, StepUndo, StepWork, Strand, TemplateRange, TemplateStep, ToUndo, UndoOfFrame,
    UndoOfStep, UndoPlan, UndoWork, Unstarted, Waking,
};
pub(crate) use shielded::ShieldedBody;
pub(crate) use timers::{Purpose, StepTimer};
pub(crate) use turns::{ActiveTurn, StrandTurn};
pub(crate) use undo::UndoEntry;
pub(crate) use undo_queue::{Locks, NextUndo, UndoItem, UndoQueue, UndoWorker, Undone};
pub(crate) use values::Lifetime;
pub use values::Stack;
pub(crate) use walk::{locations, outermost_first};
