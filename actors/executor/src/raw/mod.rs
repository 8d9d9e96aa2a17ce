//! Bytes that are no message: raw uploads and raw results (FTN3 §1.1 `rawupload`, `rawresult`).
//!
//! Both are streams with back-pressure. A transport reads no more of an upload than its handler
//! takes, and a handler writes no more of a result than its client takes.

mod cookie;
mod flow;
mod head;
mod input;
mod output;
mod token;

pub use self::cookie::Cookie;
pub(crate) use self::flow::RawFlow;
pub use self::head::Head;
pub(crate) use self::input::BrokenOff;
pub use self::input::RawInput;
pub(crate) use self::output::raw_result;
pub use self::output::{RawBody, RawOutput};
