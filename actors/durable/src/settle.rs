//! An operator settles what a paused request has begun.

use asyncsteps_journal::record::StoredRecord;
use asyncsteps_journal::request::{Resume, Signal};
use asyncsteps_journal::{Error, Event, Path, Record, Uid, ValueError};

use crate::answered::answered;
use crate::durable::Durable;
use crate::settled::{SETTLED, Settle, Settled};

/// Why a step is not settled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotSettled {
    /// The request has not begun a step at this path.
    #[error("the request has begun no step {path}, but: {}", texts(begun).join(", "))]
    NoStep {
        /// The path.
        path: Path,
        /// Those of the steps that it has begun, the last ones first; ten at most.
        begun: Vec<Path>,
    },
    /// The step is to be undone, and began without an undo.
    #[error(
        "the step {0} began without an undo: settle it as kept, or as undone if it was undone elsewhere"
    )]
    NoUndo(Path),
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

fn texts(paths: &[Path]) -> Vec<&str> {
    paths.iter().map(Path::as_str).collect()
}

/// Whether this may be said about the step at this path: it has begun, and with an undo if it is to be undone.
fn check(records: &[StoredRecord], path: &Path, how: &Settle) -> Result<(), NotSettled> {
    let begins =
        |event: &Event| matches!(event, Event::Intent(_) | Event::Done(_) | Event::Failed(_));
    let begun = records.iter().rev().map(|it| &it.record).filter(|it| begins(&it.event));
    let has_undo = begun.clone().filter(|it| it.path == *path).any(
        |Record { event, .. }| matches!(event, Event::Intent(intent) if intent.has_undo != Some(false)),
    );
    match how {
        _ if !begun.clone().any(|it| it.path == *path) => {
            let mut last = Vec::new();
            for Record { path, .. } in begun {
                if last.len() < 10 && !last.contains(path) {
                    last.push(path.clone());
                }
            }
            Err(NotSettled::NoStep { path: path.clone(), begun: last })
        }
        Settle::Undo if !has_undo => Err(NotSettled::NoUndo(path.clone())),
        Settle::Kept | Settle::Undone | Settle::Result(_) | Settle::Undo => Ok(()),
    }
}

impl Durable {
    /// Settles what a paused request has begun at a step, and lets the request go on, both or neither: of several
    /// operators at once one succeeds. `by` and `why` say who does so and for what reason, and are recorded at the step.
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
    /// If the future is dropped, the step is settled and the request goes on, or neither.
    pub async fn settle(
        &self,
        uid: Uid,
        path: &Path,
        how: Settle,
        by: &str,
        why: &str,
    ) -> Result<(), NotSettled> {
        let journal = &self.shared.journal;
        check(&journal.load(uid).await?.records, path, &how)?;
        let id = Uid::random().map_err(NotSettled::NoRandom)?;
        let value = Settled::new(path, how, by, why).encode()?;
        let order = Resume::Signal(Signal { id, name: SETTLED.to_owned(), value });
        Ok(answered(|| journal.resume(uid, order.clone())).await?)
    }
}
