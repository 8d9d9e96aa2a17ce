//! AsyncSteps flows, locks and the FutoIn Executor on actix actors.
#![forbid(unsafe_code)]

pub mod iface;
pub mod message;
