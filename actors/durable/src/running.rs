//! Bodies that run: which those are, what is said of those that run for long, and the order to stop them.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use asyncsteps_journal::record::{Intent, StoredRecord};
use asyncsteps_journal::request::{FlowState, Signal, StoredSignal};
use asyncsteps_journal::{Error, Event, Path, Refused, Timestamp, Uid, Value};

use crate::answered::answered;
use crate::awaited::is_stopped;
use crate::durable::Durable;
use crate::flow::DurableFlow;
use crate::held::RunningStep;
use crate::life::LeaveReason;
use crate::marks::HAS_ENDED;
use crate::shared::KEY;
use crate::submit::NotSubmitted;

/// The name of the signal by which an operator pauses a request: names of steps and of people have no such character.
const PAUSE: &str = "\u{1}pause";

impl Durable {
    /// The bodies that nodes of this process run.
    #[must_use]
    pub fn bodies(&self) -> Vec<RunningStep> {
        self.shared.held.running()
    }

    /// The bodies of a request that run. Of a request that another process runs it is what the journal knows: steps that
    /// can be undone or begin `once`, and any body that has run for a minute.
    ///
    /// # Errors
    /// The errors of [`status`](Self::status).
    pub async fn running(&self, uid: Uid) -> Result<Vec<RunningStep>, Error> {
        let running = self.shared.held.running().into_iter().filter(|step| step.uid == uid);
        let running: Vec<_> = running.collect();
        let flow = self.shared.journal.status(uid).await?.flow;
        if flow.state != FlowState::Running {
            return Ok(Vec::new());
        }
        if !running.is_empty() {
            return Ok(running);
        }
        let (records, now) = (self.records(uid).await?, self.shared.now());
        let function = flow.template.as_str().into();
        let step = |(path, (attempt, at)): (&Path, (u32, Timestamp))| {
            let millis = |time: Timestamp| Duration::from_millis(time.as_millis());
            let (since, running) = (millis(at), millis(now).saturating_sub(millis(at)));
            let since = SystemTime::UNIX_EPOCH + since;
            let (path, function) = (path.clone(), std::sync::Arc::clone(&function));
            RunningStep { uid, function, path, attempt, since, running }
        };
        Ok(begun(&records).into_iter().map(step).collect())
    }

    /// Pauses a request: its bodies are dropped where they wait, as when a node stops, nothing is undone, and it waits until
    /// it is [resumed](Self::resume). What its bodies had begun may happen then, and happens again with the same key when
    /// it goes on; a `once` step fails with `OutcomeUnknown`. A body that blocks its thread is dropped when it waits again.
    /// `by` says who it was, for people. Nothing happens to a request that waits for an operator already.
    ///
    /// # Errors
    /// [`Refused::HasEnded`](asyncsteps_journal::Refused::HasEnded), also for an entity, which ends with each call; the
    /// errors of [`signal`](Self::signal).
    ///
    /// # Cancel safety
    /// If the future is dropped, the request is paused or not.
    pub async fn pause(&self, uid: Uid, by: &str) -> Result<(), NotSubmitted> {
        let journal = &self.shared.journal;
        let flow = journal.status(uid).await?.flow;
        if is_stopped(flow.state) {
            return Ok(());
        }
        if flow.template.contains(KEY) {
            return Err(Error::from(Refused::HasEnded(uid)).into());
        }
        let id = Uid::random().map_err(NotSubmitted::NoRandom)?;
        let signal = Signal { id, name: PAUSE.to_owned(), value: Value::encode(&by)? };
        Ok(answered(|| journal.signal(uid, signal.clone())).await?)
    }
}

/// The bodies that have begun and not ended, as far as that is recorded: the attempt of each, and when it began.
fn begun(records: &[StoredRecord]) -> BTreeMap<&Path, (u32, Timestamp)> {
    let mut begun = BTreeMap::new();
    for record in records.iter().map(|stored| &stored.record) {
        if let Event::Intent(intent) = &record.event {
            begun.insert(&record.path, (intent.attempt, intent.at));
        } else {
            begun.retain(|path, _| **path != record.path && path.undo() != record.path);
        }
    }
    begun
}

impl DurableFlow {
    /// Leaves the flow if an operator pauses it, and notes which signals only wake it.
    pub(crate) fn obey(&self) {
        let ended = self.signals.take_all(|signal| signal.name == HAS_ENDED);
        self.signals.wake.borrow_mut().extend(ended.iter().map(|it| it.number));
        let orders = self.signals.take_all(|signal| signal.name == PAUSE);
        for StoredSignal { number, value, .. } in orders {
            let by: String = value.decode().unwrap_or_default();
            self.signals.pauses.borrow_mut().push(number);
            self.leave(LeaveReason::Paused(format!("it was paused by {by}")));
        }
    }

    /// Says in the log which bodies have not ended for long, and records that they have begun, for those who ask in another
    /// process.
    pub(crate) fn log_hung(&self) {
        for (step, form) in self.owned.held.hung() {
            let RunningStep { uid, function, path, attempt, since, running } = step;
            let since = jiff::Timestamp::try_from(since).unwrap_or_default();
            let seconds = running.as_secs();
            tracing::warn!(flow = %uid, %function, step = %path, attempt, %since, seconds, "a body has not ended for long");
            let is_open = self.replay.borrow().at(&path).is_some_and(|at| at.is_open);
            if form.is_some() && !is_open {
                let at = since
                    .as_millisecond()
                    .try_into()
                    .map_or_else(|_| self.clock().now(), Timestamp::from_millis);
                let (locks, has_undo, input) = (Vec::new(), Some(false), None);
                let intent = Intent { at, attempt, locks, has_undo, input, form };
                self.record(&path, [Event::Intent(intent)]);
            }
        }
    }
}
