//! What a transaction of a step keeps, in each database: its effect and its record are there together, or
//! neither is.
#![expect(clippy::unwrap_used, reason = "rules are tests, in functions that several tests call")]

mod postgres;
mod rules;
mod sqlite;
mod world;
