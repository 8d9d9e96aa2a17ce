//! What runs in an executor, and why it waits: as an interface for tools, and as data for consoles.
//!
//! An [`Inspector`] asks an executor of the same process. The interface `asyncsteps.admin:1.0` answers
//! the same over any transport; [`Admin::define`] has its functions:
//!
//! ```
//! use asyncsteps_actors::sync::Mutex;
//! use asyncsteps_executor::Executor;
//! use asyncsteps_observe::admin::Admin;
//! use asyncsteps_observe::Locks;
//! use asyncsteps_executor::security::SecurityLevel;
//! use serde_json::json;
//!
//! # actix::System::new().block_on(async {
//! let stock = Mutex::named("stock", Default::default());
//! let admin = Admin::new(SecurityLevel::PrivilegedOps).locks(Locks::new().mutex(&stock));
//! let executor = Executor::builder()
//!     .service(admin.interface(), admin, Admin::define)
//!     .build()?;
//! let health: serde_json::Value =
//!     executor.call_as_system("asyncsteps.admin:1.0:health", json!({})).await?;
//! assert_eq!(health["state"], "serving");
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```
//!
//! | function | parameters | result |
//! |---|---|---|
//! | `health` | | [`Health`]: whether it takes requests, admission, delays of arbiters |
//! | `flows` | `function`, `user`, `cause`, `most` | [`FlowsInFlight`]: the requests whose flows wait, the oldest first, with stack, cause, holder and queue |
//! | `steps` | `number` | [`RequestSteps`]: what the steps of a request have done |
//! | `recent` | `function`, `most` | [`RecentRequest`]s: ended requests that were kept, the newest first |
//! | `functions` | | [`FunctionReport`]s: counts, percentiles and errors |
//! | `refused` | | [`RefusedInfo`]s: the requests that were refused last, the newest first |
//! | `locks` | | [`LockInfo`]s of the watched locks: limits, holders, queues, waits |
//! | `waitGraph` | | [`WaitGraph`]: who waits for whom, for these locks |
//! | `plan` | `function` | [`FunctionPlan`]: the steps of a function, what runs in each, and how they fared in the requests that were kept |
//! | `cancel` | `number` | whether there was a flow to cancel |
//!
//! Times are numbers of milliseconds. Callers see texts of errors, users and source places of the
//! service, and can end requests, so a caller needs the [level](Admin::new) that the service chose.

mod inspector;
mod lock_info;
mod locks;
mod naming;
mod own_steps;
mod place;
mod plan;
mod service;
mod steps;
mod types;
mod wait_graph;

pub use inspector::Inspector;
pub use locks::{
    HeldLockInfo, KeyInfo, LockInfo, LockLimits, LockWait, Owner, WaitEdge, WaitGraph, Waiter,
};
pub use place::StepPlace;
pub use plan::{FunctionPlan, StepReport};
pub use service::{Admin, AdminError};
pub use types::{
    Awaited, Ending, FlowInFlight, FlowsInFlight, FunctionReport, Health, RecentRequest,
    RefusedInfo, RequestSteps, ServiceState, StepInfo, WaitInfo,
};
