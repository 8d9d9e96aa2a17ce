//! Root objects (FTN12 §2.2.3): a flow that is being configured, and one that a host drives.

mod execution;
mod identity;
mod progress;
mod root;
mod wait;
mod wait_id;

pub use execution::{Execution, run_to_end};
pub use identity::{FlowId, Identity};
pub use progress::{BURST, Outcome, Progress};
pub use root::Flow;
pub use wait::{Awaitable, Contention, Wait, WaitCause, WaitReason};
pub use wait_id::{WaitId, WaitResult};
