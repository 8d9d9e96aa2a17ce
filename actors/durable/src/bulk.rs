//! Many requests at once.

use asyncsteps_journal::limits::BATCH;
use asyncsteps_journal::request::{FlowInfo, FlowState, Query, Resume};
use asyncsteps_journal::{Error, Refused, Uid};
use futures_util::future::join_all;

use crate::answered::answered;
use crate::durable::Durable;
use crate::shared::KEY;
use crate::submit::Cancelling;

/// What [`Durable::bulk`] does to many requests.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "each of them is for requests in other states")]
pub enum Bulk {
    /// [Cancels](Durable::cancel) requests that have not ended. The name says who it was.
    Cancel(String),
    /// [Resumes](Durable::resume) requests that wait for an operator, where they are.
    Resume,
    /// Removes requests that have ended, with their records and keys.
    Purge,
}

/// How many requests are changed at the same moment: they share flushes of the storage, and others get in between.
const AT_ONCE: usize = 64;

impl Durable {
    /// The requests that this can be done to, of those that a query finds without the entities: the oldest first, as many
    /// as its limit says. What they would be done to is known before it is [done](Self::bulk).
    ///
    /// # Errors
    /// The errors of the journal.
    pub async fn bulk_targets(&self, what: &Bulk, query: Query) -> Result<Vec<FlowInfo>, Error> {
        self.found(what, Query { template_without: Some(KEY), ..query }).await
    }

    /// The same with the entities, unless the query leaves them out.
    pub(crate) async fn found(&self, what: &Bulk, query: Query) -> Result<Vec<FlowInfo>, Error> {
        let states = match what {
            Bulk::Cancel(_) if query.state == Some(FlowState::Ended) => Vec::new(),
            Bulk::Cancel(_) => vec![query.state],
            Bulk::Resume => vec![Some(FlowState::Paused), Some(FlowState::Dead)],
            Bulk::Purge => vec![Some(FlowState::Ended)],
        };
        let (limit, mut flows, open) = (query.limit, Vec::new(), *what != Bulk::Purge);
        for state in states.into_iter().filter(|it| query.state.is_none() || *it == query.state) {
            flows.extend(self.list(Query { state, open, ..query.clone() }).await?);
        }
        flows.sort_by_key(|flow| flow.number);
        flows.truncate(limit);
        Ok(flows)
    }

    /// Does something to requests that were [found](Self::bulk_targets) for it, in pieces between which the journal serves
    /// others; returns to how many. Those that it cannot be done to any more are left.
    ///
    /// # Errors
    /// The errors of the journal; then it may be done to some.
    ///
    /// # Cancel safety
    /// If the future is dropped, it is done to some; the same call does it to the others.
    pub async fn bulk(&self, what: &Bulk, uids: &[Uid]) -> Result<usize, Error> {
        let (mut done, journal) = (0, &self.shared.journal);
        let piece = if *what == Bulk::Purge { BATCH } else { AT_ONCE };
        for uids in uids.chunks(piece) {
            if *what == Bulk::Purge {
                answered(|| journal.remove(uids.to_vec())).await?;
                done += uids.len();
                continue;
            }
            let each = join_all(uids.iter().map(async |uid| match what {
                Bulk::Cancel(by) => {
                    self.cancel(*uid, by).await.map(|answer| answer == Cancelling::Requested)
                }
                Bulk::Resume | Bulk::Purge => {
                    self.resume(*uid, Resume::Continue).await.map(|()| true)
                }
            }));
            for answer in each.await {
                done += match answer {
                    Ok(is_done) => usize::from(is_done),
                    Err(Error::Refused(Refused::NoFlow(_) | Refused::NotStopped(_))) => 0,
                    // the cancel is stored before the records are read
                    Err(Error::UnknownRecord { .. } | Error::UnknownValue { .. }) => 1,
                    Err(error) => return Err(error),
                };
            }
        }
        Ok(done)
    }
}
