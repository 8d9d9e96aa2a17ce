//! AsyncSteps for Rust: the one crate that an application depends on.
//!
//! It has no code of its own. It re-exports the crates of the project, in modules by idea:
//! - the root: flows and their steps ([`Flow`], [`Template`], [`AsyncSteps`], [`Error`], [`Retry`],
//!   [`Undo`]), and a service of functions ([`Service`], [`Executor`])
//! - [`flow`], [`pool`], [`timer`], [`clock`], [`random`]: flows on actix; [`sync`](mod@sync): locks and limits
//! - [`plan`]: functions; [`executor`], [`typed`]: what hosts them, and their types; [`iface`]:
//!   definitions of interfaces (FTN3); [`typescript`]: clients in that language; [`builtin`]: interfaces of FutoIn itself
//! - [`message`], [`net`], [`url`], [`raw`], [`channel`]: what requests and answers consist of
#![cfg_attr(feature = "http", doc = "- [`http`], [`websocket`]: the server")]
//! - [`security`]: users and credentials (FTN8); [`budget`], [`drain`]: admission and shutdown
//! - [`observe`], [`health`], [`admin`]: what runs, and how it fares
//! - [`sim`], [`tool`]: tests in virtual time
//! - [`prelude`]: the traits whose methods steps have
//! - [`engine`]: the step machine without a runtime
//!
//! The other modules have features:
//!
//! | feature | module |
//! |---|---|
//! | `http` (default) | `http`, `websocket` |
//! | `log` (default) | `observe::log` |
//! | `rustls` | TLS for the server |
//! | `actix-web` | an actix-web application mounts `http::Service` |
//! | `jwt` | `security::JwtProvider` |
//! | `metrics` | `metrics` |
//! | `otel` | `observe::otlp` |
//! | `console` | `console` |
//! | `durable`, `sqlite`, `postgres` | `durable`, `journal` |
//! | `encryption` | `journal::Keys` |
//! | `fabric`, `nats`, `client` | `fabric`, `fabric::nats`, `fabric::http` |
//! | `cluster` | `cluster` |
//! | `sim` | `simulation` |
//! | `ffi` | `ffi` |
//! | `test` | `test` |
//!
//! ```
//! use asyncsteps::{Returns, Steps};
//! use asyncsteps::{Code, Executor, Service, typed::Interface};
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Debug, thiserror::Error, Code)]
//! enum SeatError {
//!     #[error("no seat is left")]
//!     SoldOut,
//! }
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Reserve {
//!     seats: i32,
//! }
//!
//! #[derive(Serialize, JsonSchema)]
//! struct Reserved {
//!     left: i32,
//! }
//!
//! struct Seats;
//!
//! impl Service for Seats {
//!     type Errors = SeatError;
//! }
//!
//! fn reserve(steps: &Steps<Seats, Reserve>) -> Returns<Reserved> {
//!     steps
//!         .run("take seats", async |cx, ()| match cx.params.seats {
//!             seats @ ..=10 => Ok(Reserved { left: 10 - seats }),
//!             _ => Err(SeatError::SoldOut.into()),
//!         })
//!         .returns()
//! }
//!
//! # #[actix_rt::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut interface = Interface::new("acme.seats:1.0".parse()?);
//! interface.allow_anonymous();
//! let executor = Executor::builder()
//!     .service(interface, Seats, |functions| {
//!         functions.on("reserve", reserve);
//!     })
//!     .build()?;
//! let seats = serde_json::json!({ "seats": 3 });
//! let left: serde_json::Value = executor.call_as_system("acme.seats:1.0:reserve", seats).await?;
//! assert_eq!(left, serde_json::json!({ "left": 7 }));
//! # Ok(()) }
//! ```
#![forbid(unsafe_code)]

pub use asyncsteps_core as engine;

#[doc(inline)]
pub use asyncsteps_core::{
    Added, AddedLoop, Arg, Args, Arguments, AsyncSteps, AwaitedResult, BodyResult, Canceller,
    Codes, Completion, Error, ErrorCode, ErrorExt, Flow, Info, Outcome, Parallel, Replayable,
    Retry, RunContext, SharedState, Sleep, State, StepError, StepResult, Template, TemplateSteps,
    Time, Undo, UndoPolicy, Untyped, WaitCause, WaitReason, codes, run_to_end, sim, sleep, tool,
};
// the trait, and the macro that implements it for users of this crate
#[doc(inline)]
pub use asyncsteps_core::derive::Code;
#[doc(inline)]
pub use asyncsteps_macros::Code;

#[doc(inline)]
pub use asyncsteps_executor::{
    Builder, CallSteps, Caller, ConfigError, Cx, Either, Emits, Executor, Functions, RequestInfo,
    RequestSteps, Returns, Service, Step, Steps, TypedCall, TypedCallError, TypedClient,
};

#[doc(inline)]
pub use asyncsteps_actors::{budget, clock, drain, flow, pool, random, sync, timer};
#[doc(inline)]
pub use asyncsteps_executor::{
    builtin, channel, iface, message, net, plan, raw, security, typed, typescript, url,
};
#[doc(inline)]
pub use asyncsteps_observe::admin;

#[cfg(feature = "ffi")]
#[doc(inline)]
pub use asyncsteps_actors::ffi;
#[cfg(feature = "cluster")]
#[doc(inline)]
pub use asyncsteps_cluster as cluster;
#[cfg(feature = "console")]
#[doc(inline)]
pub use asyncsteps_console as console;
#[cfg(feature = "durable")]
#[doc(inline)]
pub use asyncsteps_durable as durable;
#[cfg(feature = "test")]
#[doc(inline)]
pub use asyncsteps_executor::test;
#[cfg(feature = "fabric")]
#[doc(inline)]
pub use asyncsteps_fabric as fabric;
#[cfg(feature = "durable")]
#[doc(inline)]
pub use asyncsteps_journal as journal;
#[cfg(feature = "metrics")]
#[doc(inline)]
pub use asyncsteps_observe::metrics;
#[cfg(feature = "sim")]
#[doc(inline)]
pub use asyncsteps_simulation as simulation;
#[cfg(feature = "http")]
#[doc(inline)]
pub use asyncsteps_transport::{http, websocket};

/// Not for users: the paths that `#[derive(Code)]` writes.
#[doc(hidden)]
pub use asyncsteps_core::derive;

/// Hosting functions: the [`Executor`], its configuration, calls and hooks.
pub mod executor {
    #[doc(inline)]
    pub use asyncsteps_executor::{
        Answer, AssignError, BlockingRequest, Builder, CallSteps, Caller, CancelRequest,
        CancelRequests, Catalog, ClientLimits, ClientPermit, Closed, ConfigError, Declaration,
        Direction, Dispatch, Executor, ExecutorActor, FailedCall, FunctionInfo, Functions, Hooks,
        InFlightFilter, InFlightRequest, Incoming, InspectSteps, InterfaceInfo, Invocation,
        Invoker, Invoking, Message, NotHosted, NotSignalled, OldestInFlight, ParamType,
        ParameterInfo, Received, RefusalReason, Refused, RefusedRequest, Reply, ReplyBody,
        RequestChecks, RequestInfo, RequestOfFlow, RequestOutcome, RequestOver, RequestState,
        RequestSteps, ServedRequest,
    };
}

/// Observing what runs: the log, records of requests, spans and traces.
pub mod observe {
    #[doc(inline)]
    pub use asyncsteps_actors::{carried, latency, record, span, trace};
    #[doc(inline)]
    pub use asyncsteps_executor::observe::*;
    #[doc(inline)]
    pub use asyncsteps_observe::{BusyKey, LockDetail, Locks, WatchedLock};
    #[cfg(feature = "log")]
    #[doc(inline)]
    pub use asyncsteps_observe::{Format, Log, LogError, LogGuard, init, log};
    #[cfg(feature = "otel")]
    #[doc(inline)]
    pub use asyncsteps_observe::{Otlp, OtlpError, OtlpExporter, OtlpGuard, otlp};
}

/// Whether an executor works, and whether it should get requests; both over HTTP.
pub mod health {
    #[doc(inline)]
    pub use asyncsteps_executor::health::*;
    #[doc(inline)]
    pub use asyncsteps_observe::health::{HealthService, service};
}

/// The traits whose methods steps have, for `use asyncsteps::prelude::*`.
pub mod prelude {
    #[doc(no_inline)]
    pub use asyncsteps_actors::flow::{DeadlineSteps as _, IntoFlow as _, WaitSteps as _};
    #[doc(no_inline)]
    pub use asyncsteps_core::ErrorExt as _;
    #[cfg(feature = "durable")]
    #[doc(no_inline)]
    pub use asyncsteps_durable::prelude::*;
    #[doc(no_inline)]
    pub use asyncsteps_executor::{CallSteps as _, RequestSteps as _};
}

// the page has the program of `executor-demo/template`, which a test compares
#[cfg(all(feature = "http", feature = "log"))]
#[doc = include_str!("docs/first_service.md")]
pub mod first_service {}

#[cfg(feature = "http")]
#[doc = include_str!("docs/guide.md")]
pub mod guide {}

#[cfg(all(feature = "durable", feature = "mcp", feature = "sim"))]
#[doc = include_str!("docs/long_work.md")]
pub mod long_work {}

#[doc = include_str!("docs/slow.md")]
pub mod slow {}

#[cfg(all(feature = "nats", feature = "postgres"))]
#[doc = include_str!("docs/standing_still.md")]
pub mod standing_still {}

#[cfg(all(feature = "cluster", feature = "postgres"))]
#[doc = include_str!("docs/database.md")]
pub mod database {}

#[cfg(all(feature = "mcp", feature = "durable"))]
#[doc = include_str!("docs/tools.md")]
pub mod tools {}

#[cfg(feature = "jwt")]
#[doc = include_str!("docs/bearer_tokens.md")]
pub mod bearer_tokens {}

#[cfg(all(feature = "http", feature = "metrics"))]
#[doc = include_str!("docs/deploy.md")]
pub mod deploy {}

#[cfg(all(doctest, feature = "http", feature = "log"))]
#[doc = include_str!("../../../README.md")]
struct Readme;
