//! The tests of the executor: one program, because each program that is linked takes longer than most tests. The unsafe
//! code has its own, for AddressSanitizer.

mod answer_within;
mod auth_service;
mod branches;
mod early_ends;
mod functions;
mod logic;
mod plan_data;
mod plans;
mod records;
mod signals;
mod step_keys;
mod test_request;
mod twice;
