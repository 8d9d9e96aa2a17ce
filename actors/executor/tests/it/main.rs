//! The tests of the executor: one program, because each that is linked takes longer than most tests.

mod answer_within;
mod auth_service;
mod branches;
mod closing;
mod early_ends;
mod foreign_steps;
mod functions;
mod jwt;
mod jwt_issuers;
mod logic;
mod own_names;
mod plan_data;
mod plans;
mod received;
mod records;
mod requests_seen;
mod signals;
mod step_keys;
mod test_request;
mod tools;
mod twice;
