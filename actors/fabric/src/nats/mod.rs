//! Calls between processes, over a NATS server.
//!
//! ```no_run
//! use std::sync::Arc;
//! use std::time::Duration;
//! use asyncsteps_executor::Executor;
//! use asyncsteps_fabric::nats::{Config, NatsFabric};
//! use asyncsteps_fabric::{Client, Endpoint, Fabric};
//!
//! # async fn node() -> Result<(), Box<dyn std::error::Error>> {
//! let fabric = NatsFabric::connect(Config::new("nats://127.0.0.1:4222")).await?;
//! let executor = Executor::builder().invoker(Client::new(Arc::new(fabric.clone()))).build()?;
//! let guard = fabric.serve(Endpoint::all(&executor), executor.clone()).await?;
//! // ... until the process is to end
//! let grace = Duration::from_secs(10);
//! guard.drain(grace).await;
//! executor.close(grace).await;
//! fabric.close().await;
//! # Ok(()) }
//! ```
//!
//! # On the wire
//! The body is the FutoIn message unchanged; the answer of a function without a result is an empty body.
//! `<if>` is the name of an interface with `-` for each dot.
//!
//! | subject | |
//! |---|---|
//! | `ftn.v1.rpc.<if>.<major>.<minor>.<func>` | a call; nodes share them in a queue group |
//! | `ftn.v1.node.<node>.<if>.<major>.<minor>.<func>` | a call of one node |
//! | `ftn.v1.node.<node>.ping` | whether it is there |
//! | `ftn.v1.ctl.<node>.cancel`, `.ping`, `.drain` | the call with the reply subject in the body has ended; what the node serves; it is to [end](NatsFabric::drain_ordered). `all` is every node, but for `drain` |
//! | `ftn.v1.ctl.all.serves` | what a node serves from now on |
//! | `_INBOX.ftn-<id>.<token>`, `.probe` | answers; a node asks which of its calls are wanted |
//! | `$SRV.PING`, `INFO`, `STATS` | the micro service protocol of NATS: a service per interface and major version |
//!
//! A node that implements 1.2 subscribes to the minors 0, 1 and 2, so the server routes by version, and a
//! rolling upgrade is safe.
//!
//! | header | |
//! |---|---|
//! | `Ftn-Uid` | what is asked for, the same for all attempts at it ([`Call::with_key`](crate::Call::with_key)); without a key, the reply subject replaces it, which no other attempt has |
//! | `Ftn-Deadline-Ms`, `Ftn-Ends-Ms` | how long the caller still waits, and its time of day when it does not any more, since 1970: what waited on its way for so long is not carried out, see [`Config::max_clock_difference`] |
//! | `Ftn-Fence` | the tokens of the locks that are held around the call, with commas between them, see [`FencingToken`](asyncsteps_actors::sync::FencingToken) |
//! | `Idempotency-Key` | the key of the caller for its request, as a front or a typed client got it |
//! | `traceparent`, `tracestate`, `baggage` | the trace of the caller, and [what it carries](asyncsteps_actors::carried) |
//! | `Ftn-Node`, `Ftn-Mac` | the node that calls, and its proof, see [`Trust`] |
//! | `Ftn-Unsigned` | the user of the call did not sign the request that it forwards (FTN3 §2.4) |
//! | `Nats-Service-Error` | the error code of an answer, which is in its body too |
//!
//! # Arbiters
//! The connection is a task of the runtime that connects, so connect on an arbiter that lives as long as the
//! fabric. It must not block: NATS closes connections that do not read. Requests run on the arbiter that
//! [serves](crate::Fabric::serve), or on [several](NatsFabric::serve_on), each on the one that has the
//! fewest.
//!
//! # Every request is answered
//! A request is taken from the connection at once and carried out, or answered with DefenseRejected if the
//! node has too many ([`Config::max_in_flight`]); none waits in a queue of the connection, because
//! what does not fit there is dropped without a word. A draining node stops its subscriptions in a way that
//! loses no message, see [`ServeGuard::drain`](crate::ServeGuard::drain).
//!
//! # Callers that are gone
//! A node asks the callers of longer calls, each [probe interval](Config::probe_interval), which of them are wanted:
//! calls that were dropped are cancelled, and so are calls of a caller that misses three probes. Misses do not count
//! within 2 seconds of a reconnect. Programs that are no nodes, such as `nats request`, are not asked. Once a caller
//! knows the node, it notifies it at once.
//!
//! The caller of a request that waited on its way for half a second is asked before: it may know that the
//! connection was lost.
//!
//! While the server cannot be reached, calls fail with ConnectError at once, and nothing is kept to be sent later: it
//! would be carried out twice, after the caller has tried again. The calls in flight when the connection is lost have
//! an unknown outcome. A node connects again by itself. Meanwhile it serves its own functions over HTTP; one that
//! [depends](NatsFabric::connection_state) on its connection is not [ready](asyncsteps_executor::health) then.
//!
//! A server that is silent for three [ping intervals](Config::ping_interval) is lost, and the next one of the list is
//! dialled. The others of its cluster may send messages to it for minutes, since they take the nodes for connected there:
//! so the queue group of a node's own calls is another one for each connection that follows a lost one. A server that is
//! about to end (lame duck mode) is left before it does, and files with credentials or certificates are read again when
//! they were written: neither costs a call.
//!
//! A subscription that the server does not permit is tried again each interval, and a call whose message it does not
//! permit ends at once with SecurityError; the log and the state of the connection name the subject.
//!
//! # Nodes that are gone
//! A node sends its calls to the nodes that it has seen at its last [look](Config::view_interval), each in turn, by their
//! names, if it may; to any node of the queue group before the first look, and where nothing else is known. So it knows
//! which node has a call. The next node takes the place of one with more calls of this one that wait. The nodes of calls
//! that wait for 0.1 seconds are asked whether they are there, again and again, up to ten times a second. Where nothing
//! takes the question, the node is dead, and its calls end at once with an unknown outcome; so they do when it is silent
//! for three [intervals](Config::view_interval). A node that is silent for one gets no more calls until it is seen again.
//!
//! # Who may publish
//! Whatever may publish to a subject of a node can send it a message whose headers are malformed. The library that
//! reads them, async-nats, loses the connection at such a message before the node sees it: the node connects again,
//! within 0.1 seconds if the server is there, and the calls that it had in flight have an unknown outcome. These losses
//! are [counted](NatsFabric::connection_losses). Permissions of the server are what keeps strangers from it: let only
//! nodes publish to `ftn.v1.>` and `_INBOX.>`.
//!
//! A node that is called learns the reply subject of that call, and no other: the last part of each is a
//! random number of 64 bits. So it can answer its own calls only.

mod calls;
mod client;
mod config;
pub mod connection;
mod control;
mod credentials;
mod dial;
mod error;
mod events;
mod exchange;
mod fabric;
mod headers;
mod link;
mod micro;
mod node_server;
mod outgoing;
mod own;
mod probe;
mod pulse;
mod replies;
mod request;
mod serve;
mod subjects;
mod subscription;
mod trust;
mod view;
mod wanted;
mod watch;
mod ways;
mod wind_down;
mod worker;

pub use config::{Config, Secret};
pub use error::NatsError;
pub use fabric::NatsFabric;
pub use trust::Trust;
