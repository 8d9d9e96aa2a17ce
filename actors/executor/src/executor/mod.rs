//! The Executor (FTN6). In the order of a request:
//!
//! 1. `incoming`, `handle`: what a transport passes in, and the [`Executor`] that takes it
//! 2. `dispatch`: the way from there to the reply
//! 3. `check`, `authenticate`, `registry`: the checks
//! 4. `admission`, `client_limits`, `hashing`: limits
//! 5. `exchange`, `time_limit`: the request while its flow runs
//! 6. `request`, `received`, `events`, `served`, `signals`, `result_draft`, `call`, `invoker`, `forward`: what steps see of it
//! 7. `result`, `request_flow_owner`, `reply_context`, `reply`: from the last step of the flow to the reply
//! 8. `over`, `recording`, `refusals`, `hooks`: reporting the end
//!
//! `arbiter`, `actor`, `messages`, `in_flight`, `survey`, `close`: the executor on one arbiter, as others reach
//! it. `builder`, `functions`, `handlers`, `implementation`, `blocking`, `builtin`, `limit`, `catalog`: what applications do with it.
//!
//! Files import from each other, in this order, and never from this one.

mod actor;
mod admission;
mod arbiter;
mod authenticate;
mod blocking;
mod builder;
pub mod builtin;
mod call;
mod caller;
mod catalog;
mod check;
mod client_limits;
mod close;
mod config_error;
mod declaration;
mod dispatch;
mod dynamic_limits;
mod error_text;
mod estimate;
mod events;
mod exchange;
mod failed_call;
mod forward;
mod functions;
mod guarded;
mod handle;
mod handler_types;
mod handlers;
mod hashing;
mod hooks;
mod host_figures;
mod implementation;
mod in_flight;
mod incoming;
mod invoker;
mod key;
mod limit;
mod message_count;
mod messages;
mod not_hosted;
mod outcome;
mod over;
mod range_map;
mod received;
mod received_parts;
mod recording;
mod refusals;
mod refused;
mod registry;
mod reply;
mod reply_context;
mod request;
mod request_checks;
mod request_flow_owner;
mod request_parts;
mod result;
mod result_draft;
mod served;
mod signals;
mod standard;
mod survey;
#[cfg(feature = "test")]
pub mod test;
mod time_limit;
mod tool;
mod typed_client;

pub use blocking::BlockingRequest;
pub use builder::Builder;
pub use call::CallSteps;
pub use caller::Caller;
pub use catalog::{Catalog, FunctionInfo, InterfaceInfo, ParameterInfo};
pub use client_limits::{ClientLimits, ClientPermit};
pub use close::Closed;
pub use config_error::ConfigError;
pub use declaration::Declaration;
pub use dynamic_limits::AssignError;
pub use events::{EventReceiver, EventSender, event_text};
pub use failed_call::FailedCall;
pub use functions::Functions;
pub use handle::{Executor, ExecutorActor};
pub use handler_types::{FunctionResult, Written};
pub use hooks::{Direction, Hooks};
pub use in_flight::{InFlightFilter, InFlightRequest, RequestOfFlow, RequestState};
pub use incoming::Incoming;
pub use invoker::{Invocation, Invoker, Invoking};
pub use key::{IDEMPOTENCY_KEY, KeyPolicy, checked_key};
pub use messages::{Answer, CancelRequest, CancelRequests, Dispatch, InspectSteps};
pub use not_hosted::NotHosted;
pub use outcome::{RequestOutcome, RequestOver};
pub use received::Received;
pub use refusals::RefusedRequest;
pub use refused::{RefusalReason, Refused};
pub use reply::{Message, Reply, ReplyBody};
pub use request::{FrontWait, ParamType, RequestInfo, RequestSteps};
pub use request_checks::RequestChecks;
pub use served::ServedRequest;
pub use signals::NotSignalled;
pub(crate) use signals::{InboxGuard, Sent};
pub use survey::OldestInFlight;
pub use tool::ToolInfo;
pub use typed_client::{TypedCall, TypedCallError, TypedClient};
