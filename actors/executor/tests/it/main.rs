//! The tests of the executor: one program, because each program that is linked takes longer than most tests. The unsafe
//! code has its own, for AddressSanitizer.

#[cfg(all(feature = "schemars", feature = "test"))]
mod admin;
#[cfg(feature = "schemars")]
mod answer_within;
mod auth_service;
#[cfg(all(feature = "schemars", feature = "test"))]
mod branches;
#[cfg(feature = "schemars")]
mod early_ends;
mod first_service;
#[cfg(feature = "schemars")]
mod functions;
#[cfg(feature = "http")]
mod health;
#[cfg(feature = "log")]
mod log;
#[cfg(feature = "schemars")]
mod logic;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(feature = "metrics")]
mod monitoring;
#[cfg(feature = "schemars")]
mod plan_data;
#[cfg(feature = "schemars")]
mod plans;
mod records;
mod serve;
#[cfg(feature = "schemars")]
mod signals;
#[cfg(feature = "schemars")]
mod step_keys;
#[cfg(feature = "test")]
mod test_request;
#[cfg(all(feature = "schemars", feature = "test"))]
mod twice;
