//! What a node asks another one for an entity by, with the waits that lead there.

use std::sync::Arc;

use asyncsteps_actors::sync::deadlock::WaitPath;
use asyncsteps_core::Error;
use asyncsteps_journal::request::Signal;
use asyncsteps_journal::{Journal, Uid, Value};
use tokio::runtime::Handle;

use crate::answered::answered;
use crate::submit::{NotSubmitted, error_of_submit};

/// The signal by which a node asks another one for an entity.
const GIVE_BACK: &str = "give back";

/// Its value: the node that asks, and the waits that lead to the entity. Waits of which the node has asked before come alone.
pub(super) type Asks = (Option<u64>, Option<WaitPath>);

/// Sends waits after the node that has asked for the entity.
pub(super) fn send(journal: &Arc<dyn Journal>, uid: Uid, path: WaitPath) {
    let Ok(runtime) = Handle::try_current() else { return };
    let Ok(signal) = asks((None, Some(path))) else { return };
    let journal = Arc::clone(journal);
    runtime.spawn(async move {
        if let Err(error) = answered(|| journal.signal(uid, signal.clone())).await {
            tracing::debug!(entity = %uid, %error, "the entity is not there any more");
        }
    });
}

pub(super) fn asks(asks: Asks) -> Result<Signal, Error> {
    let value = Value::encode(&asks).map_err(|error| error_of_submit(&error.into()))?;
    Ok(Signal { id: random()?, name: GIVE_BACK.to_owned(), value })
}

pub(super) fn random() -> Result<Uid, Error> {
    Uid::random().map_err(|error| error_of_submit(&NotSubmitted::NoRandom(error)))
}
