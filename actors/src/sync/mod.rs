//! Synchronisation objects as actors (FTN12 §1.11): usable by flows on any arbiter.

pub mod limiter;
mod lock;
pub mod mutex;
pub mod throttle;

pub use limiter::Limiter;
pub use mutex::Mutex;
pub use throttle::Throttle;
