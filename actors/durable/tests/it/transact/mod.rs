//! Steps whose effect and record are one transaction, in each database, and processes that are killed and replaced.

pub(crate) mod bank;
mod kill;
mod process;
mod rules;
mod shop;
mod upgrade;
