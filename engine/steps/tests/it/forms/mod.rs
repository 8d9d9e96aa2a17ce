//! The forms beyond FTN12: steps that are async closures, and what is said behind a step.

/// Several things at once in one step, with their results.
mod gather;
/// Steps are ended from outside, with what is inside.
mod interrupt;
/// Policies nest in one order, whatever the order of writing.
mod nesting;
/// Steps remember an earlier run of their flow.
mod replay;
/// A step is tried again as its policy says.
mod retry;
/// Async closures are steps everywhere, and lend what they captured.
mod run;
/// Clones of one error in several steps keep apart.
mod shared_error;
/// Nothing outside cancels a shielded step.
mod shielded;
/// Async bodies sleep by timers of their flow.
mod sleep;
/// Steps find what surrounds them.
mod surroundings;
/// A hard time limit cancels what is inside, and is raised at its own step.
mod timeout;
/// What was done is undone on every way out.
mod undo;
/// Branches are undone beside each other.
mod undo_branches;
/// Locks are held until what is inside is undone.
mod undo_locks;
/// What follows a loop begins after the undos inside.
mod undo_loops;
/// Undos run in order, whatever ends the steps that wait for them.
mod undo_order;
/// Many branches are undone in reasonable time.
mod undo_scale;
/// What a body that fails may have done.
mod undo_unknown;

mod support;
