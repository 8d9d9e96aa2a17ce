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

struct WriterTask {
    server: Arc<PostgresServer>,
    session: Option<JournalSession>,
    program: i64,
    limits: Limits,
}

impl WriterTask {
    async fn run(mut self, mut todo: Receiver<Change>) {
        let mut group = Vec::new();
        while todo.recv_many(&mut group, GROUP).await > 0 {
            self.write(std::mem::take(&mut group)).await;
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
