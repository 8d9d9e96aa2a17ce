//! The tests of the executor: one program, because each program that is linked takes longer than most tests. The unsafe
//! code has its own, for AddressSanitizer.

#[cfg(feature = "test")]
mod admin;
mod answer_within;
mod auth_service;
#[cfg(feature = "test")]
mod branches;
mod early_ends;
mod first_service;
mod functions;
#[cfg(feature = "http")]
mod health;
#[cfg(feature = "log")]
mod log;
mod logic;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(feature = "metrics")]
mod monitoring;
mod plan_data;
mod plans;
mod records;
mod serve;
mod signals;
mod step_keys;
#[cfg(feature = "test")]
mod test_request;
#[cfg(feature = "test")]
mod twice;
