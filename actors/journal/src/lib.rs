//! The history of durable flows, kept so that a crash loses nothing.
//!
//! A flow is a tree of named steps. The history of each step is a list of [`Record`]s at its [`Path`]. After a crash
//! the template runs again from the top, and a step with a record completes at once with the recorded result: memory by
//! path, not by order, so branches may run in any order and a program may change. A [`Journal`] keeps the records, says
//! which node owns which flow, and lets no past owner write.
//!
//! ```
//! use asyncsteps_journal::memory::Memory;
//! use asyncsteps_journal::record::{Done, Started};
//! use asyncsteps_journal::request::{Append, Condition, Disposition, FirstOwner, Submit};
//! use asyncsteps_journal::{Epoch, Event, Journal, LEASE, Path, Record, Uid, Value};
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let journal = Memory::default();
//! let node = journal.register(LEASE).await?.node;
//! let uid = Uid::random()?;
//! let started = Started {
//!     template: "demo.shop:order".to_owned(),
//!     version: 1,
//!     parameters: Value::encode(&("apples", 3))?,
//!     user: None,
//!     deadline: None,
//!     trace: None,
//!     schedule: None,
//!     is_asked_for: false,
//!     parent: None,
//! };
//! let owner = FirstOwner::Node(node);
//! journal.submit(Submit::new(uid, started, owner)).await?;
//!
//! let pay = Path::template("demo.shop:order").step("pay");
//! let receipt = Done { value: Value::encode(&4711)?, attempt: 1, millis: 12 };
//! let entry = Append {
//!     uid,
//!     epoch: Epoch::new(1),
//!     version: 1,
//!     first: 1,
//!     records: vec![Record::new(pay.clone(), Event::Done(receipt))],
//!     replaces: Vec::new(),
//!     takes: Vec::new(),
//!     seen: 0,
//!     condition: Condition::None,
//!     then: Disposition::Keep,
//!     is_awaited: false,
//! };
//! let answers = journal.append(vec![entry]).await?;
//! assert!(answers[0].is_ok());
//!
//! // after a crash, on whichever node has the flow then
//! let loaded = journal.load(uid).await?;
//! assert_eq!(loaded.records[1].record.path, pay);
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is guaranteed
//!
//! - An answered request is kept, as long as the storage keeps flushed data.
//! - A flow has one owner. An append of any other is refused in the transaction that would write it.
//! - An append is written once, however often it is repeated, and as a whole.
//! - Of a cancel and an end, the first one counts, and likewise of a signal and a timeout.
//! - A flow ends, waits, is claimed again, or is a dead letter that [`Journal::list`] shows. None is
//!   forgotten before [`Journal::trim`] drops ended ones.
//!
//! Not guaranteed: an order between flows; that an effect outside happens once (the record of an effect
//! comes after it); anything about a flow that was trimmed.
//!
//! # How a flow uses it
//!
//! 1. [`submit`](Journal::submit) stores parameters, and assigns the flow to the node that asks if it
//!    is its [`FirstOwner`](request::FirstOwner).
//! 2. The owner runs the template. Each step appends its [`Event`]s, each before the moment that the
//!    event names. Only waiting is lazy: records that have to be on disk together go with one
//!    [`append`](Journal::append), including records of other flows. Record numbers go on over epochs,
//!    from [`next`](request::Loaded::next).
//! 3. A step made of others (scope, timeout, retry, section, race, join, each, loop) appends an
//!    [`Outcome`](Event::Outcome) when it is decided. A loop appends an [`Iteration`](Event::Iteration), which replaces
//!    its records, except for records that an undo around the loop needs. An undo is a step of its own, at
//!    [`Path::undo`].
//! 4. The answer to each append has the highest number of the inbox. If there is news, the owner reads
//!    the [`inbox`](Journal::inbox): signals, and the cancel. A wait that takes a signal appends
//!    [`Signal`](Event::Signal) and [`takes`](request::Append::takes) it. A timeout is appended under the
//!    condition that all was [seen](request::Condition::AllSeen).
//! 5. A flow that only waits may be unloaded with [`Disposition::Park`](request::Disposition::Park); one that holds a
//!    lock never is. Shutdown and drain [release](request::Disposition::Release) flows, wherever they are.
//! 6. [`Ended`](Event::Ended) is the last record; then the caller is answered.
//!
//! A step whose effect is in the database of the journal commits it together with its record, see
//! [`Transaction`].
//!
//! # How a node uses it
//!
//! It [registers](Journal::register) when it starts, [renews](Journal::renew) its lease each third of it, and
//! [claims](Journal::claim) flows as its admission allows, whenever [`changes`](Journal::changes) reports work and each
//! [`POLL`]. A claim raises the epoch, so what the node [loads](Journal::load) afterwards is complete. If the lease has
//! expired, or an append is answered with [`NotWritten::Stale`], the node drops the flow as if it had crashed: without
//! handlers, without undo. If its process dies, the lease ends early: when its [session](Journal::session) has been gone
//! for [`GONE`]. A node that only stands still has its lease to the end.
//!
//! A flow whose owner dies while an effect was open (an [`Intent`](Event::Intent) without an end) is a suspect: it
//! may be what killed it. A node has few of these at once ([`Claim::suspects`](request::Claim::suspects)), and
//! after [`Limits::claims`] deaths with an effect of no other flow open a suspect is a dead letter. A flow that was released is not
//! counted, and any progress resets the count. [`Claimed::deaths`](request::Claimed::deaths) counts every death: then the owner
//! writes an intent before each body and each undo, so one without it that kills its process is found too.
#![forbid(unsafe_code)]

mod away;
mod check;
mod coding;
pub mod dump;
mod effects;
mod error;
mod head;
mod id;
mod journal;
#[cfg(feature = "encryption")]
mod keys;
pub mod limits;
pub mod memory;
mod moment;
mod path;
#[cfg(feature = "postgres")]
pub mod postgres;
mod quota;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod ran;
pub mod record;
pub mod request;
mod seal;
mod sealed;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod stored;
mod time;
pub mod transaction;
mod value;

pub use away::is_store_away;
pub use error::{Cause, Error, NotWritten, Refused, Repeat};
pub use id::{Epoch, Incarnation, ParseUidError, RecordId, Uid};
pub use journal::{Answer, Journal};
#[cfg(feature = "encryption")]
pub use keys::{InvalidKeys, Keys};
pub use limits::Limits;
pub use path::{ParsePathError, Path, PathPart};
pub use record::{Event, Record, StoredRecord};
pub use request::{GONE, LEASE, POLL, Registered};
pub use time::{Clock, Jump, Reading, SystemClock, Timestamp, TokioClock};
pub use transaction::{Database, Transaction};
pub use value::{Value, ValueError};
