//! Entries per period, on all nodes together (FTN12 §1.11.2).

mod options;
mod share;
mod state;
mod steps;

pub use options::{Counting, OnDisconnect, Rate};
pub(crate) use state::ThrottleState;
pub use steps::Throttle;
