//! The tests of flows and locks on actix: one program, because each program that is linked takes longer than most tests.

mod arbiter_pool;
mod arbiter_tool;
mod budget;
mod deadlocks;
mod flow_actor;
mod flow_messages;
mod flow_panics;
mod lock_messages;
mod lock_owners;
mod locks_in_simulation;
mod mutex_actor;
mod recordings;
mod spans;
mod throttle_actor;
mod undo_everywhere;
mod undo_flows;
