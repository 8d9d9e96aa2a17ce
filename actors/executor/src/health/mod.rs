//! Whether an executor works, and whether it should get requests: for load balancers and for what
//! restarts services.
//!
//! | | `GET` | is answered with 200 while | who asks |
//! |---|---|---|---|
//! | liveness | `/health` | each arbiter answers a message within a second | what restarts the process |
//! | readiness | `/ready` | it does, a request would be admitted, the executor is not closing, and the connections are there that it [depends on](Executor::depends_on) | what sends requests to it |
//!
//! Otherwise the status is 503, and the body says why. The own server answers them also while steps block all of its
//! workers, if they are its probes. An application that mounts the end point has workers of its own, and no connection
//! gets an answer that was passed to a blocked one: give its probes a listener and a thread of their own.
//!
//!
//! ```
//! use asyncsteps_executor::Executor;
//! use asyncsteps_executor::health::NotReady;
//!
//! # actix::System::new().block_on(async {
//! let executor = Executor::builder().build()?;
//! assert!(executor.readiness().await.is_ready);
//! executor.close(std::time::Duration::ZERO).await;
//! assert_eq!(executor.readiness().await.reasons, [NotReady::Closing]);
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```

mod dependencies;

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::executor::Executor;

pub(crate) use dependencies::Dependencies;
pub use dependencies::{ConnectionState, Dependency};

/// Whether an executor should get requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[non_exhaustive]
pub struct Readiness {
    /// Whether it should.
    #[serde(rename = "ready")]
    pub is_ready: bool,
    /// Why not.
    pub reasons: Vec<NotReady>,
    /// What is wrong with the [connections](Executor::depends_on), a sentence for each.
    #[serde(skip)]
    pub faults: Vec<String>,
}

/// Why an executor should get no requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NotReady {
    /// It [closes](Executor::close), or [is about to](Executor::announce_close).
    Closing,
    /// Its [`Budget`](asyncsteps_actors::budget::Budget) is used up, with its queue: a request would be
    /// refused.
    Overloaded,
    /// An arbiter does not answer.
    ArbiterStuck,
    /// A [connection](Executor::depends_on) that it depends on is lost, such as the connection of a node to the others.
    Disconnected,
}

impl NotReady {
    /// One word, as it is serialized.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closing => "closing",
            Self::Overloaded => "overloaded",
            Self::ArbiterStuck => "arbiter_stuck",
            Self::Disconnected => "disconnected",
        }
    }
}

impl Executor {
    /// Whether this executor should get requests. It takes as long as its arbiters take to answer, one
    /// second at the most.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn readiness(&self) -> Readiness {
        let delays = self.arbiter_delays().await;
        self.readiness_with(&delays)
    }

    /// The same, where arbiters took so long to [answer](Self::arbiter_delays).
    #[must_use]
    pub fn readiness_with(&self, delays: &[Duration]) -> Readiness {
        let states = self.connection_states().into_iter();
        let faults: Vec<String> = states.filter_map(|state| state.fault).collect();
        let reasons: Vec<NotReady> = [
            (self.is_close_announced(), NotReady::Closing),
            (self.is_overloaded(), NotReady::Overloaded),
            (delays.iter().any(|delay| *delay >= Self::ANSWER_TIME), NotReady::ArbiterStuck),
            (!faults.is_empty(), NotReady::Disconnected),
        ]
        .into_iter()
        .filter_map(|(applies, reason)| applies.then_some(reason))
        .collect();
        Readiness { is_ready: reasons.is_empty(), reasons, faults }
    }

    /// Makes the executor depend on a connection: while that is not there, the executor is not
    /// [ready](Self::readiness), for the reason [`Disconnected`](NotReady::Disconnected). Requests that
    /// come nevertheless are carried out. `look` returns a [`ConnectionState`], or whether the connection is there; it
    /// must not wait.
    pub fn depends_on<S: Into<ConnectionState>>(
        &self,
        look: impl Fn() -> S + Send + Sync + 'static,
    ) -> Dependency {
        self.dependencies().add(Arc::new(move || look().into()))
    }

    /// The states of the connections that the executor [depends on](Self::depends_on).
    #[must_use]
    pub fn connection_states(&self) -> Vec<ConnectionState> {
        self.dependencies().states()
    }

    /// Whether each arbiter of this executor answers within a second. Those answer where a transport
    /// serves, and where a request has waited.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn is_alive(&self) -> bool {
        self.arbiter_delays().await.iter().all(|delay| *delay < Self::ANSWER_TIME)
    }
}
