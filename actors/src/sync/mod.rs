//! Synchronisation objects as actors (FTN12 §1.11): usable by flows on any arbiter.

pub mod mutex;

pub use mutex::Mutex;
