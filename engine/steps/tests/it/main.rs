//! The tests of the engine: one program, because each program that is linked takes longer than most tests.

#[cfg(feature = "macros")]
mod codes;
mod compile_fail;
mod doc_marks;
mod flows;
mod forms;
mod log;
mod mistakes;
mod sim;
mod sim_faults;
mod spec_examples;
mod tool;
mod tool_reentry;
mod violations;
