//! Steps whose effect and record are one transaction, in each database.

mod bank;
mod kill;
mod rules;
