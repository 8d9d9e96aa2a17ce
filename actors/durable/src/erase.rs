//! What is recorded about people is removed before its time.

use asyncsteps_journal::limits::BATCH;
use asyncsteps_journal::request::{FlowState, Query};
use asyncsteps_journal::{Error, Uid};

use crate::answered::{answered, answered_or_lost};
use crate::durable::Durable;
use crate::schedule::ScheduledRequests;
use crate::scheduler::end;

/// What [`Durable::erase`] removes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the journal finds requests by these")]
pub enum Erase {
    /// The requests that act for the user with this local id, and the stored schedules whose requests do.
    User(String),
    /// The requests that were stored with this key of a caller, for whichever function and user.
    Key(String),
}

/// The answer to [`Durable::erase`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Erased {
    /// How many requests were removed.
    pub removed: usize,
    /// The names of the schedules that were removed.
    pub schedules: Vec<String>,
    /// The names of schedules that cannot be opened, so that nobody knows whose they are: they are left.
    pub unread: Vec<String>,
    /// How many requests have not ended, and are left.
    pub open: usize,
    /// The names of these, the oldest first: at most [`BATCH`].
    pub named: Vec<Uid>,
}

impl Durable {
    /// Removes what has ended, with its records, its inbox and its key, at once instead of when it is
    /// [trimmed](Self::trim); a caller who repeats the key begins a new request. What has not ended is counted, named
    /// and left: erase it again when it has, or after it was [cancelled](Self::cancel) and undone.
    ///
    /// Schedules that the program declares are no stored ones. A storage may keep what it has removed for a while, see
    /// `journal::sqlite` and `journal::postgres`, and so do backups.
    ///
    /// # Errors
    /// The errors of the journal; then a part may be removed already.
    ///
    /// # Cancel safety
    /// If the future is dropped, a part is removed; the same call removes the rest.
    pub async fn erase(&self, whose: Erase) -> Result<Erased, Error> {
        let mut erased = Erased::default();
        let (user, key) = match whose {
            Erase::User(user) => (Some(user), None),
            Erase::Key(key) => (None, Some(key)),
        };
        if let Some(user) = &user {
            // first, so that they begin nothing meanwhile
            (erased.schedules, erased.unread) = self.erase_schedules(user).await?;
        }
        let mut query = Query { user, key, limit: BATCH, ..Query::default() };
        loop {
            let page = self.shared.journal.list(query.clone()).await?;
            let Some(last) = page.last() else { return Ok(erased) };
            query.after = last.number;
            let (ended, open): (Vec<_>, Vec<_>) =
                page.iter().partition(|flow| flow.state == FlowState::Ended);
            let ended: Vec<Uid> = ended.iter().map(|flow| flow.uid).collect();
            answered(|| self.shared.journal.remove(ended.clone())).await?;
            erased.removed += ended.len();
            erased.open += open.len();
            let room = BATCH - erased.named.len();
            erased.named.extend(open.iter().map(|flow| flow.uid).take(room));
        }
    }

    /// Removes the schedules of a user; returns their names, and the names of those that cannot be opened.
    async fn erase_schedules(&self, local_id: &str) -> Result<(Vec<String>, Vec<String>), Error> {
        let (shared, journal) = (&self.shared, &self.shared.journal);
        let (mut erased, mut unread) = (Vec::new(), Vec::new());
        for stored in journal.schedules().await? {
            let Ok(caller) = ScheduledRequests::caller_of(&stored) else {
                unread.push(stored.name);
                continue;
            };
            if caller.user().is_some_and(|user| user.local_id() == local_id) {
                // as when an operator removes it
                let scheduled =
                    ScheduledRequests::read(&stored).ok().map(|(scheduled, _)| scheduled);
                end(shared, scheduled.as_ref()).await?;
                answered_or_lost(|| journal.remove_schedule(stored.name.clone())).await.0?;
                end(shared, scheduled.as_ref()).await?;
                erased.push(stored.name);
            }
        }
        shared.tell_schedules_changed();
        Ok((erased, unread))
    }
}
