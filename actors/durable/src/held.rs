//! What the nodes of a process have, as its other threads see it: which bodies run, and what only waits, so that it can go
//! to another node while the arbiter of its own is blocked.

use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use asyncsteps_actors::clock::{self, Clock};
use asyncsteps_journal::record::IntentForm;
use asyncsteps_journal::request::{Append, Claimed, Disposition};
use asyncsteps_journal::{Epoch, Path, Uid};
use dashmap::DashMap;
use parking_lot::Mutex;

use crate::last_append::last_append;
use crate::on_drop::on_drop;

/// A body that runs for so long is in the log, and again whenever it has run twice as long.
const HUNG: Duration = Duration::from_secs(60);

/// A body of a durable request that runs in this process.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunningStep {
    /// The request.
    pub uid: Uid,
    /// Its function, as the journal has it: interface, major version, name.
    pub function: Arc<str>,
    /// The step, or its undo.
    pub path: Path,
    /// Which attempt it is, from 1.
    pub attempt: u32,
    /// When it began, by the clock of the machine.
    pub since: SystemTime,
    /// How long it has run, however a clock was set.
    pub running: Duration,
}

/// All flows and entities that nodes of the process have.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldFlows(Arc<DashMap<(Uid, Epoch), Arc<Held>>>);

/// A flow or an entity that a node has.
#[derive(Debug)]
pub(crate) struct Held {
    claimed: Claimed,
    /// The number of the node.
    node: u64,
    /// The function, or the full name of the entity.
    pub(crate) name: Arc<str>,
    now: Mutex<HeldNow>,
}

#[derive(Debug, Default)]
struct HeldNow {
    bodies: Vec<Body>,
    /// How many of these have begun.
    begun: u64,
    /// How much else keeps it here: records that were not sent to the journal, locks, calls of an entity.
    kept: usize,
    is_given: bool,
}

#[derive(Debug)]
struct Body {
    id: u64,
    path: Path,
    attempt: u32,
    /// `None` for an undo.
    form: Option<IntentForm>,
    began: Clock,
    since: SystemTime,
    /// How long it runs until the next line in the log.
    logged: Duration,
}

impl HeldFlows {
    /// The node of this number has a flow or an entity, until the guard is dropped.
    pub(crate) fn add(&self, node: u64, claimed: Claimed, name: Arc<str>) -> HeldGuard {
        let held = Arc::new(Held { claimed, node, name, now: Mutex::default() });
        self.0.insert(held.key(), Arc::clone(&held));
        HeldGuard { all: self.clone(), held }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes from the node what only waits there: no body of it begins there any more.
    pub(crate) fn give(&self, node: u64) -> Vec<Arc<Held>> {
        let of_node = self.0.iter().filter(|held| held.node == node && held.give());
        of_node.map(|held| Arc::clone(&held)).collect()
    }

    /// The bodies that run.
    pub(crate) fn running(&self) -> Vec<RunningStep> {
        let running = |held: &Held| -> Vec<_> {
            held.now.lock().bodies.iter().map(|body| held.running(body)).collect()
        };
        self.0.iter().flat_map(|held| running(&held)).collect()
    }
}

impl Held {
    fn key(&self) -> (Uid, Epoch) {
        (self.claimed.uid, self.claimed.epoch)
    }

    /// Something keeps it with the node.
    pub(crate) fn keep(&self) {
        self.now.lock().kept += 1;
    }

    /// That is over.
    pub(crate) fn let_go(&self) {
        self.now.lock().kept -= 1;
    }

    /// Whether another node may have it by now.
    pub(crate) fn is_given(&self) -> bool {
        self.now.lock().is_given
    }

    fn give(&self) -> bool {
        let mut now = self.now.lock();
        let is_kept =
            now.kept > 0 || now.bodies.iter().any(|body| body.form != Some(IntentForm::Repeatable));
        !is_kept && !std::mem::replace(&mut now.is_given, true)
    }

    /// The append that gives it back.
    pub(crate) fn release(&self) -> Append {
        last_append(self.claimed, Disposition::Release)
    }

    /// A body of this form, or an undo, begins, until the guard is dropped; `None` if another node may have the flow.
    pub(crate) fn begin(
        self: &Arc<Self>,
        (path, attempt): (Path, u32),
        form: Option<IntentForm>,
    ) -> Option<impl Sized + use<>> {
        let mut now = self.now.lock();
        if now.is_given {
            return None;
        }
        let (began, since) = (Clock::start(), clock::wall());
        now.begun += 1;
        let id = now.begun;
        now.bodies.push(Body { id, path, attempt, form, began, since, logged: HUNG });
        let held = Arc::clone(self);
        Some(on_drop(move || {
            let bodies = &mut held.now.lock().bodies;
            if let Some(at) = bodies.iter().position(|body| body.id == id) {
                bodies.swap_remove(at);
            }
        }))
    }

    /// The bodies that are to be in the log by now, with their forms.
    pub(crate) fn hung(&self) -> Vec<(RunningStep, Option<IntentForm>)> {
        let mut now = self.now.lock();
        let hung = now.bodies.iter_mut().filter(|body| body.began.elapsed() >= body.logged);
        let hung = hung.map(|body| {
            body.logged *= 2;
            (self.running(body), body.form)
        });
        hung.collect()
    }

    fn running(&self, body: &Body) -> RunningStep {
        RunningStep {
            uid: self.claimed.uid,
            function: Arc::clone(&self.name),
            path: body.path.clone(),
            attempt: body.attempt,
            since: body.since,
            running: body.began.elapsed(),
        }
    }
}

/// A flow or an entity that a node has, until this is dropped.
pub(crate) struct HeldGuard {
    all: HeldFlows,
    held: Arc<Held>,
}

impl Deref for HeldGuard {
    type Target = Arc<Held>;

    fn deref(&self) -> &Self::Target {
        &self.held
    }
}

impl Drop for HeldGuard {
    fn drop(&mut self) {
        self.all.0.remove(&self.held.key());
    }
}
