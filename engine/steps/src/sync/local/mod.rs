//! Locks for flows on one event loop: they carry the accounting and wake the flows that wait.

mod limiter;
mod mutex;
mod throttle;

pub use limiter::Limiter;
pub use mutex::Mutex;
pub use throttle::Throttle;
