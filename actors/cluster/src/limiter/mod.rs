//! Sections at once and entries per period, on all nodes together (FTN12 §1.11.7).

mod options;
mod places;
mod state;
mod steps;

pub use options::Limits;
pub(crate) use state::LimiterState;
pub use steps::Limiter;
