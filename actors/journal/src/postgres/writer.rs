//! The task that writes, and its queue.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::yield_now;
use tokio::time::sleep;

use super::change::{AskedChange, Change};
use super::group::{Group, GroupAttempt};
use super::session::{JournalSession, PostgresServer, SessionFailure};
use crate::error::Error;
use crate::limits::Limits;

/// How many changes wait; others wait in their tasks until there is room.
const QUEUE: usize = 4096;

/// How many changes share a commit at the most: their rows are written in about the time of the
/// flush.
const GROUP: usize = 512;

/// How many others share a commit with changes that callers wait for, and how many commits after such changes have no more:
/// the next change of the caller comes before they are over, and waits for one that has begun.
const BESIDE: (usize, usize) = (64, 16);

/// Pauses between attempts to reach the server: the first and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Asks the task.
#[derive(Clone)]
pub(super) struct WriterHandle(Sender<Change>);

impl WriterHandle {
    /// Starts the task; it ends with the last copy of this.
    pub(super) fn start(
        server: Arc<PostgresServer>,
        session: Option<JournalSession>,
        program: i64,
        limits: Limits,
    ) -> Self {
        let (changes, todo) = channel(QUEUE);
        let task = WriterTask { server: Arc::clone(&server), session, program, limits };
        server.tasks.begin(task.run(todo));
        Self(changes)
    }

    /// Has something changed. It is repeated until the server has answered.
    pub(super) async fn run<Q, A>(
        &self,
        wrap: impl FnOnce(AskedChange<Q, A>) -> Change,
        request: Q,
    ) -> Result<A, Error> {
        let (asked, answer) = AskedChange::new(request);
        self.0.send(wrap(asked)).await.map_err(|_| Error::Closed)?;
        answer.await.unwrap_or(Err(Error::Closed))
    }
}

/// Changes that were asked for and are not written.
#[derive(Default)]
struct WaitingChanges {
    /// Those that are [awaited](Change::is_awaited).
    first: VecDeque<Change>,
    rest: VecDeque<Change>,
    /// How many of the next groups have few others.
    small: usize,
}

impl WaitingChanges {
    /// The changes that are written next; `None` if there are none and none will come. Beside changes that are awaited there
    /// are few others, because those are answered when all of the group is written.
    async fn next_group(&mut self, todo: &mut Receiver<Change>) -> Option<Vec<Change>> {
        if self.first.is_empty() && self.rest.is_empty() {
            self.add(todo.recv().await?);
        }
        while self.first.len() + self.rest.len() < QUEUE
            && let Ok(change) = todo.try_recv()
        {
            self.add(change);
        }
        let first = self.first.len().min(GROUP);
        self.small = if first > 0 { BESIDE.1 } else { self.small.saturating_sub(1) };
        let rest = self.rest.len().min(if self.small > 0 { BESIDE.0 } else { GROUP });
        Some(self.first.drain(..first).chain(self.rest.drain(..rest)).collect())
    }

    fn add(&mut self, change: Change) {
        let queue = if change.is_awaited() { &mut self.first } else { &mut self.rest };
        queue.push_back(change);
    }
}

struct WriterTask {
    server: Arc<PostgresServer>,
    session: Option<JournalSession>,
    program: i64,
    limits: Limits,
}

impl WriterTask {
    async fn run(mut self, mut todo: Receiver<Change>) {
        let mut waiting = WaitingChanges::default();
        while let Some(group) = waiting.next_group(&mut todo).await {
            self.write(group).await;
            // askers that were answered ask again before the next group is taken
            yield_now().await;
        }
    }

    /// Writes a group until it is answered; if it is answered with an error, each change alone.
    async fn write(&mut self, group: Vec<Change>) {
        let mut groups = VecDeque::from([(group, GroupAttempt::First)]);
        while let Some((mut group, attempt)) = groups.pop_front() {
            let committed = self.repeat(&mut group, attempt).await;
            match committed {
                // one change alone would be answered the same
                Err(error) if group.len() > 1 && !matches!(error, Error::ReadOnly(_)) => {
                    let is_lost = matches!(error, Error::AnswerLost(_));
                    let attempt =
                        if is_lost { GroupAttempt::Repeated } else { GroupAttempt::Counted };
                    groups.extend(group.into_iter().map(|change| (vec![change], attempt)));
                }
                committed => {
                    group.into_iter().for_each(|change| change.end(committed.clone()));
                }
            }
        }
    }

    async fn repeat(
        &mut self,
        group: &mut [Change],
        mut attempt: GroupAttempt,
    ) -> Result<(), Error> {
        let mut pause = PAUSES.0;
        loop {
            match self.attempt(group, attempt).await {
                Ok(()) => return Ok(()),
                Err(failure) if attempt == GroupAttempt::First && failure.is_stored() => {
                    attempt = GroupAttempt::Counted;
                }
                // what was done before that is not known
                Err(SessionFailure::Answered(error)) if attempt == GroupAttempt::Repeated => {
                    return Err(Error::AnswerLost(Arc::new(error)));
                }
                Err(SessionFailure::Answered(error)) => return Err(error),
                Err(SessionFailure::Conflict(_)) => {}
                Err(SessionFailure::Lost(cause)) => {
                    attempt = GroupAttempt::Repeated;
                    self.session = None;
                    if !group.iter().any(Change::is_wanted) {
                        return Err(Error::AnswerLost(cause));
                    }
                    sleep(pause).await;
                    pause = (pause * 2).min(PAUSES.1);
                }
            }
        }
    }

    async fn attempt(
        &mut self,
        group: &mut [Change],
        attempt: GroupAttempt,
    ) -> Result<(), SessionFailure> {
        let session = match self.session.take() {
            Some(session) if !session.is_closed() => session,
            _ => self.server.session().await?,
        };
        let session = self.session.insert(session);
        let (program, limits) = (self.program, self.limits);
        Group { session, program, limits, attempt }.write(group).await
    }
}

#[cfg(test)]
mod tests {
    use super::super::change::EncodedBatch;
    use super::*;
    use crate::id::{Epoch, Uid};
    use crate::request::{Append, Condition, Disposition};

    /// An append to this flow.
    fn append(flow: u8, is_awaited: bool) -> Change {
        let entry = Append {
            uid: Uid::from_bytes([flow; 16]),
            epoch: Epoch::new(1),
            version: 1,
            first: 1,
            records: Vec::new(),
            replaces: Vec::new(),
            takes: Vec::new(),
            seen: 0,
            condition: Condition::None,
            then: Disposition::Keep,
            is_awaited,
        };
        Change::Append(AskedChange::new(EncodedBatch { batch: vec![entry], records: Vec::new() }).0)
    }

    #[tokio::test]
    async fn what_is_waited_for_is_written_next_beside_a_few_others() {
        let (ask, mut todo) = channel(QUEUE);
        let mut waiting = WaitingChanges::default();
        for _ in 0..GROUP + 100 {
            ask.send(append(1, false)).await.expect("room");
        }
        assert_eq!(waiting.next_group(&mut todo).await.map(|it| it.len()), Some(GROUP));
        ask.send(append(2, true)).await.expect("room");
        let group = waiting.next_group(&mut todo).await.expect("a group");
        assert!(group[0].is_awaited() && group.len() == 1 + BESIDE.0, "{}", group.len());
        for _ in 0..2 * GROUP {
            ask.send(append(1, false)).await.expect("room");
        }
        drop(ask);
        for _ in 1..BESIDE.1 {
            assert_eq!(waiting.next_group(&mut todo).await.map(|it| it.len()), Some(BESIDE.0));
        }
        let left = 100 + 2 * GROUP - BESIDE.0 * BESIDE.1;
        assert_eq!(waiting.next_group(&mut todo).await.map(|it| it.len()), Some(left));
        assert!(waiting.next_group(&mut todo).await.is_none());
    }
}
