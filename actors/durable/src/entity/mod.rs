//! Entities: actors that have a key instead of an address. The [`guide`] says when, how, and what is guaranteed.
//!
//! An entity is a flow in the journal that never ends: one state, which each call replaces. The journal's claim and epoch
//! make one node its owner, a keyed mutex orders its calls, and the plan of the function carries each call.
//!
//! - `state.rs`: the state, by its type and without it; `kind.rs`: what the entities of an interface have in common
//! - `call.rs`: a call, from its caller to the owner; `hop.rs`: to another arbiter
//! - `mail.rs`: messages to itself; `post.rs`, `deliver.rs`: how they are stored and carried out; `headers.rs`: what goes
//!   with a call
//! - `owner.rs`: those of a node; `claim.rs`: how it gets them; outside, `owners.rs`: who owns those of a process
//! - `owned.rs`: one of these: its state, and what is stored of its calls; `answers.rs`: calls that come again
//! - `view.rs`, and `turns.rs` outside: what the console shows of them

mod answers;
mod asks;
mod call;
mod claim;
mod deliver;
mod functions;
mod headers;
mod hop;
mod kind;
mod mail;
mod owned;
mod owner;
mod post;
mod reservations;
mod state;
mod view;

use asyncsteps_executor::Service;
use asyncsteps_journal::{Value, ValueError};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use crate::turns::EntityTurn;
pub use answers::ANSWERS;
pub use functions::EntityFunctions;
pub use kind::KeyParameters;
pub use mail::{MESSAGES, Message, MessageId};
pub(crate) use owner::{CurrentLease, EntityOwner};
pub use reservations::{NotReserved, ReservationRules, Reservations};
pub use state::{EntityCx, EntityState};
pub use view::EntityInfo;

#[doc = include_str!("../docs/entities.md")]
pub mod guide {}

/// A service whose functions are called for one of many keys, each of which has a state of its own: an actor with a key
/// instead of an address. Its calls run one at a time in the whole cluster, those of a node in the order in which they
/// came. The state is in memory while it is called, in the journal when its caller is answered, and lives on after its
/// process.
///
/// [`Durable::entity`](crate::Durable::entity) adds the functions to an interface.
///
/// ```
/// # use asyncsteps_durable::entity::{Entity, EntityCx as _};
/// # use asyncsteps_durable::{Durable, journal::memory::Memory};
/// # use asyncsteps_executor::{Cx, Executor, Service, typed::Interface};
/// # use asyncsteps_core::BodyResult;
/// # use schemars::JsonSchema;
/// # use serde::{Deserialize, Serialize};
/// # use serde_json::json;
/// /// The seats of events.
/// struct Seats;
///
/// impl Service for Seats {
///     type Errors = ();
/// }
///
/// impl Entity for Seats {
///     type State = Hall;
/// }
///
/// #[derive(Clone, Default, Serialize, Deserialize)]
/// struct Hall { sold: i32 }
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Sell { event: String, seats: i32 }
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Sold { event: String }
///
/// impl Seats {
///     async fn sell(cx: &Cx<Self, Sell>) -> BodyResult<i32> {
///         Ok(cx.entity().change(|hall| {
///             hall.sold += cx.params.seats;
///             hall.sold
///         })?)
///     }
///
///     async fn sold(cx: &Cx<Self, Sold>) -> BodyResult<i32> {
///         Ok(cx.entity().get().sold)
///     }
/// }
///
/// # actix::System::new().block_on(async {
/// let durable = Durable::new(Memory::default()); // or a file, or PostgreSQL
/// let executor = Executor::builder()
///     .service(Interface::new("acme.seats:1.0".parse()?), Seats, |functions| {
///         durable.entity(functions, "event").on("sell", Seats::sell).reads("sold", Seats::sold);
///     })
///     .build()?;
/// let node = durable.start(&executor).await?;
///
/// let sell = json!({ "event": "opera", "seats": 2 });
/// executor.call_as_system::<i32>("acme.seats:1.0:sell", sell).await?;
/// let sold = executor.call_as_system::<i32>("acme.seats:1.0:sold", json!({ "event": "opera" })).await?;
/// assert_eq!(sold, 2);
/// node.stop().await;
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
pub trait Entity: Service {
    /// The state of one key. An entity that was never called has the default. It is stored as a
    /// [value](asyncsteps_journal::Value) of the journal, so it may have
    /// [64 KiB](asyncsteps_journal::limits::VALUE_BYTES).
    type State: Serialize + DeserializeOwned + Clone + Default + 'static;

    /// The version of the stored form of the state, at most 1,000. A node claims no entity that a higher version has written.
    const VERSION: u32 = 1;

    /// The state that an earlier version has stored. It is stored anew when a call changes it. By default it is read
    /// like one of this version.
    ///
    /// # Errors
    /// If it cannot be read: then the entity waits for an operator.
    fn upgrade(version: u32, stored: &Value) -> Result<Self::State, ValueError> {
        let _ = version;
        stored.decode()
    }
}
