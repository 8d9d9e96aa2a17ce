//! The methods of [`AsyncSteps`](crate::AsyncSteps), which callbacks call (FTN12 §2.2).
//!
//! - `adding.rs`: adding steps (§2.2.1) and loops (§2.2.4); `new_steps.rs` makes the steps,
//!   `run.rs` and `substeps.rs` make steps that can be tried again; `added.rs` sets their options,
//!   `parallel.rs` takes branches, `collection.rs` has the collections of loops.
//! - `deferred.rs`: the steps that template steps become when they start.
//! - `ending.rs`: completing or failing the step; `waiting.rs`: time limits, cancel handlers and
//!   waits (§2.2.2); `interrupting.rs`: ends from outside.
//! - `context.rs`: state, errors and the flow as a whole; `around.rs`: the steps around this one;
//!   `values.rs`: values with the lifetime of a step.
//! - `rules.rs`: what a callback may do when.
//!
//! Nothing here runs a step: that is the [machine](crate::machine).

mod added;
mod adding;
mod around;
mod collection;
mod context;
mod deferred;
mod ending;
mod gathering;
mod interrupting;
mod new_steps;
mod parallel;
mod rules;
mod run;
mod substeps;
mod values;
mod waiting;

pub use added::{Added, AddedLoop, Untyped};
pub use collection::Collection;
pub use parallel::Parallel;
pub use run::RunContext;
pub(crate) use run::{AsyncBody, Plain, WithContext, start_shared};
