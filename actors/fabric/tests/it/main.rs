//! The tests of fabrics, each of which keeps one contract.

mod contract;
#[cfg(feature = "http")]
mod http;
mod local;
#[cfg(feature = "nats")]
mod nats;
mod policies;
