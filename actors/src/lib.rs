//! AsyncSteps flows, locks and the FutoIn Executor on actix actors.
#![forbid(unsafe_code)]

mod clock;
pub mod executor;
pub mod flow;
pub mod iface;
pub mod message;
mod observe;
pub mod sync;
pub mod transport;
