//! Requests that survive a crash.
//!
//! A function with [types](asyncsteps_executor::functions) becomes durable with one word,
//! [`Durable::on`]. The results of its steps are recorded in a [journal]; after a kill, a restart or
//! on another machine the request goes through its steps again, and those with a record return it at once, without
//! running. Undo, attempts, time limits, parallel branches and waits survive with it.
//!
//! ```
//! use asyncsteps_durable::{Durable, Options};
//! use asyncsteps_durable::journal::memory::Memory;
//! use asyncsteps_executor::{Returns, Steps};
//! use asyncsteps_executor::typed::Interface;
//! use asyncsteps_executor::{Executor, Service};
//! # use asyncsteps_executor::security::{SecurityLevel, User};
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//! use serde_json::json;
//!
//! struct Shop;
//!
//! impl Service for Shop {
//!     type Errors = ();
//! }
//! # impl Shop {
//! #     async fn charge(&self, _: i32, _: &str) -> asyncsteps_core::BodyResult<String> { Ok("tx 7".into()) }
//! #     async fn refund(&self, _: &str) -> asyncsteps_core::BodyResult<()> { Ok(()) }
//! # }
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Order { amount: i32 }
//!
//! fn order(steps: &Steps<Shop, Order>) -> Returns<String> {
//!     steps
//!         .run("charge", async |cx, ()| cx.charge(cx.params.amount, cx.key()).await)
//!         .recorded()
//!         .undo(async |cx, _| cx.refund(cx.key()).await)
//!         .then("ship", async |_, tx| Ok(format!("shipped after {tx}")))
//!         .recorded()
//!         .returns()
//! }
//!
//! # actix::System::new().block_on(async {
//! let durable = Durable::new(Memory::default()); // or a file, or PostgreSQL
//! let executor = Executor::builder()
//!     .service(Interface::new("acme.shop:1.0".parse()?), Shop, |functions| {
//!         durable.on(functions, "order", order);
//!     })
//!     .build()?;
//! let node = durable.start(&executor).await?;
//!
//! # let ann = User::new("ann", SecurityLevel::SafeOps);
//! let options = Options::default().caller(&ann).key("order 4711");
//! let uid = durable.submit("acme.shop:1.0:order", json!({ "amount": 20 }), options).await?;
//! let shipped: String = durable.result(uid).await?; // also after the process was killed
//! assert_eq!(shipped, "shipped after tx 7");
//! node.stop().await;
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What each body says
//!
//! | | after a crash |
//! |---|---|
//! | [`recorded`](asyncsteps_executor::plan::Step::recorded) | returns its recorded result; runs again if the crash came before the record, with the same [key](asyncsteps_executor::Cx::key) |
//! | [`once`](asyncsteps_executor::plan::Step::once) | returns its recorded result; fails with `OutcomeUnknown` if the crash came before the record |
//! | [`transact`](Transacts::transact) | returns its recorded result; if the crash came before the record, nothing was done, and it runs again |
//! | [`repeatable`](asyncsteps_executor::plan::Step::repeatable) | runs again |
//!
//! A [loop](asyncsteps_executor::plan::Step::then_repeat) says
//! [`recorded_with_input`](asyncsteps_executor::plan::Step::recorded_with_input): its state is kept after each iteration. A
//! body that says none of these is an error of [`Builder::build`](asyncsteps_executor::Builder::build). A pause is
//! [`pause`](asyncsteps_executor::Steps::pause), and a request waits for others with
//! [`wait_signal`](asyncsteps_executor::plan::Steps::wait_signal).
//!
//! Closures that choose which steps run are asked again whenever the request goes on. They depend on parameters and on
//! results of recorded steps, and on nothing that changes: no state, no clock but
//! [`Cx::now`](asyncsteps_executor::plan::Cx::now), no chance but [`Cx::random`](asyncsteps_executor::Cx::random).
//!
//! # What is guaranteed
//!
//! After [`submit`](Durable::submit) has returned a name, the request runs to an end: a result, an error, or a stop
//! for an operator, as long as the journal keeps what it has stored. A recorded body runs at least once; the
//! effect of one that [transacts](Transacts) is there exactly once.
//! An undo runs for each body that began and has one, if the request fails or is cancelled. A request is
//! ended by its own end, by its own [deadline](Options::deadline) or by [`cancel`](Durable::cancel): not by a
//! caller that goes away, a shutdown, or the executor's time limit for requests.
//!
//! Not guaranteed: an order between requests; that a body has its effect once, unless it transacts or the other
//! side knows its key; anything about a request that was [trimmed](Durable::trim).
//!
//! # How it goes on
//!
//! - A step is known by its path: the names of the steps around it and its own. Steps of one name are distinguished by
//!   their order, items of [`each`](asyncsteps_executor::Steps::each) by their position, so the order must be the same
//!   whenever the request goes on; items of [`each_by`](asyncsteps_executor::Steps::each_by) are distinguished by their
//!   keys.
//! - Decisions are recorded before the next effect: errors, attempts and when the next one starts, when a time limit
//!   has ended, that a step is being undone and how far. So a time limit that had ended before the crash stays so.
//! - If a recorded step is not in the program any more, or a new one is in front of a recorded failure, the
//!   request is paused, with the step and the steps that there are as the reason. [`resume`](Durable::resume) lets it go on with a program that has
//!   the step. A step with another name says [`was`](asyncsteps_executor::Step::was), and one that was removed is
//!   [`retired`](asyncsteps_executor::Steps::retired).
//! - Locks are not recorded: a step that ended takes none when the request goes on, and one that did not takes its
//!   locks again. Meanwhile others may have had them, so a value that was looked up under a lock and recorded may be
//!   stale: see [Locks](guide#locks). While a request holds a lock, each step waits until its record is stored; time
//!   limits do not count that.
//! - A body that blocks its thread is begun nowhere else meanwhile, and what only waits on that thread goes to other nodes.
//! - If the process dies while a body runs that is recorded as begun, the request is a suspect. Few of these run at
//!   once; after [`Limits::claims`](asyncsteps_journal::Limits) deaths in a row with no other body running that is
//!   recorded as begun, a request is a dead letter.
//!
//! # Contents
//!
//! - [`guide`]: the model in plain words, an example, and what other engines do
//! - [`Durable`]: making functions durable, submitting, asking, signalling, cancelling
//! - [`Schedule`]: requests that begin again and again
//! - [`Node`]: what runs the requests of a journal on an arbiter
//! - [`Transacts`]: steps that commit in the journal's database
//! - [`ThenCalls`]: steps that begin other durable requests
//! - [`Replayed`]: whether open requests go on with a program, before it is deployed
//! - [`entity`]: actors by key, with a state that the journal keeps
//! - [`jobs`]: requests for callers that do not wait, over the wire
//! - [`journal`]: where they are kept
#![forbid(unsafe_code)]

mod activity;
mod answer;
mod answered;
mod awaited;
mod away;
mod bulk;
mod caller;
mod cancels;
mod causes;
mod child;
mod children;
mod commit;
mod committed;
mod compare;
mod detached;
mod due;
mod durable;
mod ended;
pub mod entity;
mod erase;
mod event_reader;
mod events;
mod figures;
mod flow;
mod flow_recorder;
mod forms;
mod front;
mod held;
mod host_figures;
mod inside;
pub mod jobs;
mod json;
mod keep;
mod keeper;
mod kept;
mod kept_schedules;
mod last_append;
mod lease;
mod left;
mod levels;
mod life;
mod marks;
mod measured;
mod node;
mod on_drop;
mod owned;
mod owners;
mod recall;
mod records;
mod replay;
mod replay_check;
mod response;
mod run;
mod running;
mod schedule;
mod scheduler;
mod schedules;
mod settle;
mod settled;
mod shared;
mod signalled;
mod signals;
mod step;
mod storage_waits;
mod stored;
mod submit;
mod suspects;
mod transact;
mod trim;
mod turn;
mod turns;
mod undo;
mod unfinished;
mod until;
mod unwinds;
mod waiters;
mod writer;

pub use asyncsteps_journal as journal;
pub use awaited::NotEnded;
pub use bulk::Bulk;
pub use children::{Child, ThenCalls};
pub use durable::{Declared, Durable};
pub use erase::{Erase, Erased};
pub use events::EmittedEvent;
pub use front::DurableForm;
pub use held::RunningStep;
pub use node::Node;
pub use replay_check::Replayed;
pub use schedule::{Overlap, SKIPPED, Schedule, WrongSchedule};
pub use schedules::{BACKFILL, NotScheduled};
pub use settle::NotSettled;
pub use settled::Settle;
pub use submit::{Cancelling, NotSubmitted, Options, WAITING_PER_CALLER};
pub use transact::{ThenTransacts, Transacts};

/// The methods of durable functions beside the methods of [`Steps`](asyncsteps_executor::Steps): `transact` and
/// `then_transact`, `then_child` and `then_submit`; and `entity`, which the bodies of an entity's functions have.
pub mod prelude {
    pub use crate::entity::EntityCx as _;
    pub use crate::{ThenCalls as _, ThenTransacts as _, Transacts as _};
}

#[doc = include_str!("docs/failover.md")]
pub mod failover {}

#[doc = include_str!("docs/durable.md")]
pub mod guide {}
