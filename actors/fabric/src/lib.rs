//! Calls between nodes: the same call in process, without any server, over NATS, and of services at URLs.
//!
//! A node is a process that serves functions with an [`Executor`](asyncsteps_executor::Executor). A
//! [`Fabric`] connects nodes: a node [serves](Fabric::serve) interfaces, and any node [calls](Fabric::call)
//! their functions. There are three, and one suite of tests that they pass:
//!
//! - [`LocalFabric`]: executors of the same process
#![cfg_attr(
    feature = "nats",
    doc = "- [`NatsFabric`](nats::NatsFabric): processes on any machines, over a NATS server"
)]
#![cfg_attr(
    feature = "http",
    doc = "- [`HttpFabric`](http::HttpFabric): FutoIn services elsewhere, at URLs; it calls and does not serve"
)]
//!
//! [`Routes`] puts several of them behind one, by interface.
//!
//! Steps need none of them: they call with [`CallSteps`](asyncsteps_executor::CallSteps) and
//! [`ServedRequest::call`](asyncsteps_executor::ServedRequest::call), whatever they call. Where a function
//! is hosted elsewhere the executor asks its [`Invoker`](asyncsteps_executor::Invoker), and that is a
//! [`Client`] of a fabric. So `timeout`, `retry` and `undo` behind a step mean the same in both cases, and
//! growing out of one process is a change of configuration.
//!
//! ```
//! use std::sync::Arc;
//! use asyncsteps_executor::{Executor, builtin};
//! use asyncsteps_executor::iface::{Loader, Source};
//! use asyncsteps_fabric::{Client, Endpoint, Fabric, LocalFabric};
//! use serde_json::{Value, json};
//!
//! # actix::System::new().block_on(async {
//! // a node that serves an interface
//! let ping = Loader::new([Source::builtin()]).load(&"futoin.ping:1.0".parse()?)?;
//! let node = Executor::builder()
//!     .interface(ping, |functions| { functions.add("ping", &builtin::ping()); })
//!     .build()?;
//! let fabric = Arc::new(LocalFabric::new());
//! let guard = fabric.serve(Endpoint::all(&node), node).await?;
//!
//! // one that calls it: its steps and its application say the name of the function, and no address
//! let front = Executor::builder().invoker(Client::new(fabric)).build()?;
//! let answer: Value = front.call_as_system("futoin.ping:1.0:ping", json!({ "echo": 7 })).await?;
//! assert_eq!(answer, json!({ "echo": 7 }));
//! # drop(guard);
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```
//!
//! # What a call promises
//! A call is carried out at most once per attempt. A [`CallError`] has one of three outcomes: the call was not carried
//! out, it was answered, or its outcome is unknown, because the connection or the node was lost after it was sent. A
//! [`Client`] retries calls that were not carried out, and calls with an unknown outcome only if the function is
//! declared [idempotent](CallPolicy::idempotent). Order is not promised, nor that a call is carried out exactly once.
//!
//! A call ends no later than the flow that makes it, on both sides. A caller that drops its call, or dies,
//! cancels it. It acts for the [caller](Call::for_caller) of the request that it is a part of (FTN3 §1.11).
//!
//! # In reading order
//! - [`Fabric`], [`Call`], [`CallError`]: calling and serving
//! - [`Client`], [`CallPolicy`]: attempts, times, hedges; the way from steps to a fabric
//! - [`Placement`], [`LiveNodes`]: which node a call goes to
//! - [`LocalFabric`]: within a process
#![cfg_attr(feature = "nats", doc = "- [`nats`]: between processes")]
#![cfg_attr(feature = "http", doc = "- [`http`]: services elsewhere")]
//! - [`Routes`]: several fabrics, by interface
#![cfg_attr(
    feature = "nats",
    doc = "- [`guide`]: services on several machines, and what happens when one fails"
)]
//!
//! Features, on by default: `http`, `nats`.
#![forbid(unsafe_code)]

mod call;
mod call_error;
mod client;
mod endpoint;
mod fabric;
#[cfg(feature = "http")]
pub mod http;
mod known_interfaces;
mod live_nodes;
mod local;
#[cfg(feature = "nats")]
pub mod nats;
mod node;
#[cfg(any(feature = "http", feature = "nats"))]
mod on_behalf;
mod pending;
mod placement;
mod policy;
mod routes;
mod serve_guard;
#[cfg(any(feature = "http", feature = "nats"))]
mod time_left;

pub use call::{Call, Response};
pub use call_error::{CallError, Outcome};
pub use client::Client;
pub use endpoint::Endpoint;
pub use fabric::{Capabilities, Fabric};
pub use live_nodes::LiveNodes;
pub use local::LocalFabric;
pub use node::{NodeId, NodeIdError, NodeInfo};
pub use pending::Pending;
pub use placement::Placement;
pub use policy::CallPolicy;
pub use routes::Routes;
pub use serve_guard::{ServeGuard, Serving};

#[cfg(feature = "nats")]
#[doc = include_str!("docs/nodes.md")]
pub mod guide {}
