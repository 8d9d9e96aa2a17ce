//! An operator settles what a paused request has begun.

use asyncsteps_journal::record::StoredRecord;
use asyncsteps_journal::request::{FlowState, Resume, Signal};
use asyncsteps_journal::{Error, Event, Path, Refused, Uid, ValueError};

use crate::answered::answered;
use crate::durable::Durable;
use crate::settled::{SETTLED, Settle, Settled};

/// Why a step is not settled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotSettled {
    /// The request has not begun a step at this path.
    #[error("the request has begun no step {0}")]
    NoStep(Path),
    /// It cannot be stored.
    #[error("it cannot be stored: {0}")]
    Value(#[from] ValueError),
    /// The system returns no random name.
    #[error("the system gives no random bytes: {0}")]
    NoRandom(#[source] getrandom::Error),
    /// The journal does not take it, or the request does not wait for an operator.
    #[error(transparent)]
    Journal(#[from] Error),
}

/// Whether a step at this path has begun.
fn has_begun(records: &[StoredRecord], path: &Path) -> bool {
    let of_step = records.iter().map(|stored| &stored.record).filter(|record| record.path == *path);
    let mut events = of_step.map(|record| &record.event);
    events.any(|event| matches!(event, Event::Intent(_) | Event::Done(_) | Event::Failed(_)))
}

impl Durable {
    /// Settles what a paused request has begun at a step, and lets the request go on: `by` and `why` say who does so
    /// and for what reason, and are recorded at the step.
    ///
    /// ```no_run
    /// # use asyncsteps_durable::{Durable, Settle, journal::Uid};
    /// # async fn settle(durable: Durable, uid: Uid) -> Result<(), Box<dyn std::error::Error>> {
    /// // the reason of the pause names the path; the bank says that the charge was returned by hand
    /// let charge = "demo.shop:1:order/charge".parse()?;
    /// durable.settle(uid, &charge, Settle::Undone, "ann", "returned by hand, case 4711").await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`NotSettled`]; [`Refused::NotStopped`](asyncsteps_journal::Refused::NotStopped) if the request does not wait
    /// for an operator.
    ///
    /// # Cancel safety
    /// If the future is dropped, the step may be settled or not, and the request may go on or not.
    pub async fn settle(
        &self,
        uid: Uid,
        path: &Path,
        how: Settle,
        by: &str,
        why: &str,
    ) -> Result<(), NotSettled> {
        let journal = &self.shared.journal;
        let loaded = journal.load(uid).await?;
        if !matches!(loaded.flow.state, FlowState::Paused | FlowState::Dead) {
            return Err(Error::Refused(Refused::NotStopped(uid)).into());
        }
        if !has_begun(&loaded.records, path) {
            return Err(NotSettled::NoStep(path.clone()));
        }
        let id = Uid::random().map_err(NotSettled::NoRandom)?;
        let value = Settled::new(path, how, by, why).encode()?;
        let signal = Signal { id, name: SETTLED.to_owned(), value };
        answered(|| journal.signal(uid, signal.clone())).await?;
        Ok(answered(|| journal.resume(uid, Resume::Continue)).await?)
    }
}
