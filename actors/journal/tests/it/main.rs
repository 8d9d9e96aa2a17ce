//! The tests of journals, each of which keeps one contract.

mod contract;
#[cfg(all(feature = "encryption", feature = "postgres", feature = "sqlite"))]
mod encryption;
mod faults;
mod flows;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(all(feature = "postgres", feature = "sqlite"))]
mod transactions;
