//! The step machine: it runs the steps of one flow (FTN12 §1, §2.6).
//!
//! [`Machine`] owns the interface that callbacks get, and with it the step stack. A callback fills
//! its step: it adds steps, or completes, or fails, or waits. When it has returned, the machine
//! decides what that meant (`settle`) and goes on.
//!
//! - `turn.rs`: a turn. It receives messages from outside (`arrivals.rs`), expires timers
//!   (`timers.rs`), then runs strands until none can go on.
//! - `step.rs`: one step: where it is entered, called, settled and ended. `templates.rs` does so for
//!   steps of templates, `attempts.rs` for attempts, `loops.rs` for iterations, `futures.rs` for futures.
//! - `unwind.rs`: errors and cancel; `undo.rs`: undoing what they leave. `branches.rs`: parallel branches.
//! - `report.rs`: reports to the observer and the host. `inspect.rs`: why a flow waits.
//!   `interrupt.rs`: where steps are ended from outside, and by simulations.

mod arrivals;
mod attempts;
mod branches;
mod futures;
mod inspect;
mod interrupt;
mod loops;
mod report;
mod step;
mod templates;
mod timers;
mod turn;
mod types;
mod undo;
mod unwind;

pub(crate) use types::Machine;
