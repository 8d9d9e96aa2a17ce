//! Transports of FutoIn (FTN5): bytes become requests and replies become bytes; the [`Executor`] sees no bytes.
//!
//! - [`http`]: a server
//! - [`websocket`]: connections that start as a request of HTTP
//!
//! Features: `rustls`, TLS for the server; `mcp`, tools of language models; `actix-web`, an application of actix-web mounts the service.
//!
//! To write another transport:
//!
//! 1. Make a [`Channel`] for each connection: what it is, whether it is secure, who is at the other
//!    end. With [`with_peer_client`] functions can call that end.
//! 2. Ask [`Executor::admit`] for the limits of the client, before work is done for it.
//! 3. Read no more than [`Executor::max_request_size`] bytes of a message, in no more time than
//!    [`Executor::request_timeout`]. Bound the requests of a connection, and read no further while
//!    its client does not take replies.
//! 4. Parse the bytes with [`Request::parse`], or with [`Message::parse`] if the other end may answer
//!    calls. [`Executor::refuse`](asyncsteps_executor::Executor::refuse) makes a [`Reply`] of a refusal of the parser.
//! 5. Hand the request, with everything else that is known, as [`Incoming`] to
//!    [`Executor::dispatch`]. Drop that future when the client goes away: this cancels the flow.
//! 6. Send the [`Reply`]: a message, nothing, or raw data. A reply without a request id cannot be
//!    assigned on a connection with many requests; [`Executor::count_unanswerable`] counts those.
//! 7. Count connections and bytes with [`Executor::traffic`], one for each arbiter, and pass all
//!    messages to [`Executor::trace_message`], which the hooks of the application see.
//! 8. When [`Executor::closing`] is ready, take no new connections, and end each one as soon as it
//!    is answered. Call [`Channel::close`] when a connection ends before its replies were sent.
//!
//! A transport runs on arbiters: requests run where they are dispatched. This one has connections
//! within the process:
//!
//! ```
//! use std::pin::pin;
//! use asyncsteps_executor::channel::{Channel, ChannelKind};
//! use asyncsteps_executor::message::Request;
//! use asyncsteps_executor::{Direction, Executor, Incoming, Reply};
//! use futures_util::stream::{FuturesUnordered, StreamExt};
//! use tokio::sync::mpsc::{Receiver, Sender};
//!
//! /// Requests of a connection that are carried out at once.
//! const IN_FLIGHT: usize = 16;
//!
//! /// Serves a connection until the client or the executor closes it.
//! async fn serve(executor: Executor, mut input: Receiver<Vec<u8>>, output: Sender<Vec<u8>>) {
//!     let channel = Channel::new(ChannelKind::WebSocket);
//!     let mut replies = FuturesUnordered::new();
//!     let mut closing = pin!(executor.closing());
//!     loop {
//!         tokio::select! {
//!             Some(reply) = replies.next() => if let Some(reply) = reply {
//!                 // nothing is read while the client does not take its replies
//!                 if output.send(reply).await.is_err() { break }
//!             },
//!             message = input.recv(), if replies.len() < IN_FLIGHT => match message {
//!                 Some(message) => replies.push(handle(&executor, &channel, message)),
//!                 None => break,
//!             },
//!             () = &mut closing, if replies.is_empty() => break,
//!         }
//!     }
//!     // dropping `replies` cancels the requests in flight
//!     channel.close();
//! }
//!
//! /// The reply to a message, if it has one.
//! async fn handle(executor: &Executor, channel: &Channel, message: Vec<u8>) -> Option<Vec<u8>> {
//!     executor.trace_message(&message, Direction::In, channel);
//!     let reply = match (executor.admit(channel).await, Request::parse(&message)) {
//!         (_, Err(refusal)) => executor.refuse(refusal, &channel),
//!         (Err(refused), Ok(request)) => Reply::refused(&refused, request.rid(), request.coding()),
//!         (Ok(permit), Ok(request)) => {
//!             let incoming = Incoming::new(request, channel.clone()).with_size(message.len());
//!             executor.dispatch(incoming.with_client_permit(permit)).await
//!         }
//!     };
//!     let reply = reply.into_bytes()?;
//!     executor.trace_message(&reply, Direction::Out, channel);
//!     Some(reply)
//! }
//!
//! # use asyncsteps_executor::builtin;
//! # use asyncsteps_executor::iface::{Loader, Source};
//! # actix::System::new().block_on(async {
//! # let ping = Loader::new([Source::builtin()]).load(&"futoin.anonping:1.0".parse()?)?;
//! # let executor = Executor::builder()
//! #     .interface(ping, |functions| { functions.add("ping", &builtin::ping()); })
//! #     .build()?;
//! let (client, input) = tokio::sync::mpsc::channel(1);
//! let (output, mut replies) = tokio::sync::mpsc::channel(1);
//! let connection = actix_rt::spawn(serve(executor.clone(), input, output));
//! client.send(br#"{"f":"futoin.anonping:1.0:ping","p":{"echo":7},"rid":"C1"}"#.to_vec()).await?;
//! assert_eq!(replies.recv().await.unwrap(), br#"{"r":{"echo":7},"rid":"C1"}"#);
//! executor.close(std::time::Duration::ZERO).await;
//! connection.await?;
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```
//!
//! [`Channel`]: asyncsteps_executor::channel::Channel
//! [`Channel::close`]: asyncsteps_executor::channel::Channel::close
//! [`with_peer_client`]: asyncsteps_executor::channel::Channel::with_peer_client
//! [`Executor`]: asyncsteps_executor::Executor
//! [`Executor::admit`]: asyncsteps_executor::Executor::admit
//! [`Executor::closing`]: asyncsteps_executor::Executor::closing
//! [`Executor::count_unanswerable`]: asyncsteps_executor::Executor::count_unanswerable
//! [`Executor::dispatch`]: asyncsteps_executor::Executor::dispatch
//! [`Executor::max_request_size`]: asyncsteps_executor::Executor::max_request_size
//! [`Executor::request_timeout`]: asyncsteps_executor::Executor::request_timeout
//! [`Executor::traffic`]: asyncsteps_executor::Executor::traffic
//! [`Executor::trace_message`]: asyncsteps_executor::Executor::trace_message
//! [`Incoming`]: asyncsteps_executor::Incoming
//! [`Message::parse`]: asyncsteps_executor::message::Message::parse
//! [`Reply`]: asyncsteps_executor::Reply
//! [`Request::parse`]: asyncsteps_executor::message::Request::parse
#![forbid(unsafe_code)]

pub mod http;
pub mod websocket;

#[cfg(test)]
#[global_allocator]
static HEAP: asyncsteps_counted_heap::Heap = asyncsteps_counted_heap::Heap;
