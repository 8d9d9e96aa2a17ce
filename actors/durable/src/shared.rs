//! The state that the handles and nodes of a process share.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use asyncsteps_actors::clock::Clock;
use asyncsteps_executor::message::Request;
use asyncsteps_executor::plan::Planned;
use asyncsteps_executor::typed::SensitiveFields;
use asyncsteps_executor::{Caller, Executor, RequestChecks};
use asyncsteps_journal::request::{self, Loaded, Submit, Submitted};
use asyncsteps_journal::{Error, Incarnation, Journal, Jump, POLL, Path, Reading, Timestamp, Uid};
use parking_lot::Mutex;
use serde_json::Map;
use tokio::sync::futures::Notified;
use tokio::sync::mpsc::error::SendError;
use tokio::sync::{Mutex as AsyncMutex, Notify, mpsc, oneshot};
use tokio::time::timeout;

use crate::caller::Origin;
use crate::event_reader::WatchedFlows;
use crate::figures::DurableFigures;
use crate::held::HeldFlows;
use crate::keeper::Keeper;
use crate::kept_schedules::KeptSchedules;
use crate::lease::Lease;
use crate::left::{JournalClock, wall};
use crate::owners::EntityOwners;
use crate::schedule::ScheduledRequests;
use crate::submit::{NotSubmitted, WAITING_PER_CALLER};
use crate::waiters::Waiters;

/// From this difference on, in milliseconds, a clock has jumped. Smaller ones are the work of time
/// servers.
const JUMP: u64 = 60_000;

/// The state that the handles and nodes of a process share.
#[derive(derive_more::Debug)]
#[debug("DurableShared {{ .. }}")]
pub(crate) struct DurableShared {
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) settings: Mutex<DurableSettings>,
    state: Mutex<DurableState>,
    kept_schedules: KeptSchedules,
    /// All schedules when the next request of one was to begin.
    schedules_read: AsyncMutex<Option<(Clock, Vec<Arc<ScheduledRequests>>)>>,
    pub(crate) entities: EntityOwners,
    /// What its nodes have.
    pub(crate) held: HeldFlows,
    /// The requests whose events are read in this process.
    pub(crate) watched: WatchedFlows,
    /// Who waits for the end or the answer of a request.
    pub(crate) waiters: Waiters,
    pub(crate) figures: DurableFigures,
    keeper: OnceLock<Keeper>,
    schedules_changed: Notify,
}

/// What the application has said of all requests.
pub(crate) struct DurableSettings {
    /// How many requests of a caller may wait.
    pub(crate) waiting_per_caller: u64,
    /// How long what has ended is kept; for ever if it was not set.
    pub(crate) remembers: Option<Duration>,
}

#[derive(Default)]
struct DurableState {
    /// By their names in the journal.
    programs: BTreeMap<String, Arc<DurableFunction>>,
    /// What reads the entities of each interface that has some, by its name and major version.
    entities: BTreeMap<Arc<str>, ReadsEntity>,
    /// The functions of entities that get messages, by their name in the journal.
    messages: BTreeMap<String, MessageFunction>,
    schedules: Vec<Arc<ScheduledRequests>>,
    nodes: Vec<LocalNode>,
    last_node: u64,
    clock_jump: Option<Jump>,
    /// The clock of the journal as a node read it last.
    clock: Option<JournalClock>,
}

/// A durable function.
#[derive(Clone, Debug)]
pub(crate) struct DurableFunction {
    /// Its name in the journal: interface, major version, function.
    pub(crate) template: String,
    /// Its name for the executor, with the whole version.
    pub(crate) function: String,
    pub(crate) version: u32,
    pub(crate) compatible: Vec<u32>,
    /// The checks of its executor.
    pub(crate) checks: RequestChecks,
    /// What of its results is not for others than its callers.
    pub(crate) sensitive: SensitiveFields,
    /// Its steps.
    pub(crate) planned: Arc<Planned>,
    /// The path of the step that answers its callers before its end, if one does.
    pub(crate) answers: Option<Path>,
}

/// What is between interface and key in the name of an entity in the journal, and in no name of a function.
pub(crate) const KEY: char = '@';

/// The version of the requests that carry messages.
pub(crate) const MESSAGE_VERSION: u32 = 1;

/// Whether the program goes on with an entity; fails with the reason why not.
pub(crate) type ReadsEntity = Arc<dyn Fn(&Loaded) -> Result<(), String> + Send + Sync>;

/// A function of entities that gets messages.
#[derive(Clone)]
pub(crate) struct MessageFunction {
    /// Its name for the executor, with the whole version.
    pub(crate) function: String,
    /// The checks of its executor.
    pub(crate) checks: RequestChecks,
}

/// The parameters of a request.
type Params = Map<String, serde_json::Value>;

impl DurableFunction {
    /// The parameters of a request of the program itself, or of a caller from outside, as its function will get them, as
    /// far as that is known; fails if it would refuse them.
    pub(crate) fn check(
        &self,
        params: Params,
        caller: &Caller,
        origin: Option<Origin>,
    ) -> Result<Params, NotSubmitted> {
        let request = Request::new(&self.function, params.clone());
        let checked = match origin {
            None => self.checks.check(request, caller),
            Some(_) => self.checks.check_outside(request, caller),
        };
        Ok(checked.map_err(NotSubmitted::Refused)?.unwrap_or(params))
    }
}

/// A node of this process, which takes flows.
#[derive(Clone)]
pub(crate) struct LocalNode {
    pub(crate) incarnation: Incarnation,
    /// Its number in this process, which is the same after its lease was lost.
    pub(crate) number: u64,
    pub(crate) orders: mpsc::UnboundedSender<Given>,
    pub(crate) lease: Arc<Lease>,
    /// Its arbiter does not answer.
    pub(crate) is_blocked: Arc<AtomicBool>,
}

/// What a handle of this process passes to a node.
#[derive(derive_more::Debug)]
pub(crate) enum Given {
    /// A request, unless the handle has taken it back.
    Request(Arc<Mutex<Option<GivenRequest>>>),
    /// Work for its arbiter, such as a call of one of its entities.
    Work(#[debug(skip)] Box<dyn FnOnce(&Executor) + Send>),
    /// Whether its arbiter runs: it drops this.
    Ask(oneshot::Sender<()>),
}

/// How long a node may take to get to a request: its arbiter may be blocked, and others are not.
const PATIENCE: Duration = Duration::from_millis(100);

/// A request for a node to store and to run.
#[derive(Debug)]
pub(crate) struct GivenRequest {
    pub(crate) submit: Submit,
    pub(crate) answer: oneshot::Sender<Result<Submitted, Error>>,
}

impl LocalNode {
    /// Makes the node store a request, and run it if it has room; returns the request if the node has
    /// ended, or does not get to it. A stored request is run, even if the future is dropped.
    pub(crate) async fn store(&self, submit: Submit) -> Result<Result<Submitted, Error>, Submit> {
        let (answer, mut stored) = oneshot::channel();
        let again = submit.clone();
        let given = Arc::new(Mutex::new(Some(GivenRequest { submit, answer })));
        if let Err(SendError(_)) = self.orders.send(Given::Request(Arc::clone(&given))) {
            return Err(again);
        }
        let stored = match timeout(PATIENCE, &mut stored).await {
            Ok(stored) => stored,
            Err(_) if given.lock().take().is_some() => return Err(again),
            Err(_) => stored.await,
        };
        // a node that ends in between may have stored it: the same name is the same request
        stored.map_err(|_| again)
    }

    /// Makes the node do this on its arbiter; if the node has ended, it is dropped.
    pub(crate) fn work(&self, work: impl FnOnce(&Executor) + Send + 'static) {
        let _ = self.orders.send(Given::Work(Box::new(work)));
    }
}

impl DurableShared {
    pub(crate) fn new(journal: Arc<dyn Journal>) -> Arc<Self> {
        Arc::new(Self {
            journal,
            settings: Mutex::new(DurableSettings {
                waiting_per_caller: WAITING_PER_CALLER,
                remembers: None,
            }),
            state: Mutex::default(),
            kept_schedules: KeptSchedules::default(),
            schedules_read: AsyncMutex::default(),
            entities: EntityOwners::default(),
            held: HeldFlows::default(),
            watched: WatchedFlows::default(),
            waiters: Waiters::default(),
            figures: DurableFigures::default(),
            keeper: OnceLock::new(),
            schedules_changed: Notify::new(),
        })
    }

    /// What keeps the leases of its nodes.
    pub(crate) fn keeper(&self) -> io::Result<&Keeper> {
        match self.keeper.get() {
            Some(keeper) => Ok(keeper),
            // of two that start at once, one ends
            None => Keeper::start().map(|keeper| self.keeper.get_or_init(|| keeper)),
        }
    }

    pub(crate) fn add_program(&self, program: DurableFunction) {
        self.state.lock().programs.insert(program.template.clone(), Arc::new(program));
    }

    /// Changes a program that was added.
    pub(crate) fn change_program(&self, template: &str, change: impl FnOnce(&mut DurableFunction)) {
        if let Some(program) = self.state.lock().programs.get_mut(template) {
            change(Arc::make_mut(program));
        }
    }

    pub(crate) fn program(&self, template: &str) -> Option<Arc<DurableFunction>> {
        self.state.lock().programs.get(template).cloned()
    }

    /// The programs as a claim names them.
    pub(crate) fn programs(&self) -> Vec<request::Program> {
        let state = self.state.lock();
        let programs = state.programs.values().map(|program| request::Program {
            template: program.template.clone(),
            version: program.version,
            compatible: program.compatible.clone(),
        });
        let messages = state.messages.keys().map(|template| request::Program {
            template: template.clone(),
            version: MESSAGE_VERSION,
            compatible: Vec::new(),
        });
        programs.chain(messages).collect()
    }

    /// Entities of this interface are read so.
    pub(crate) fn add_entities(&self, interface: Arc<str>, reads: ReadsEntity) {
        self.state.lock().entities.insert(interface, reads);
    }

    /// What reads the entity with this name in the journal.
    pub(crate) fn reads(&self, template: &str) -> Option<ReadsEntity> {
        let (interface, _) = template.split_once(KEY)?;
        self.state.lock().entities.get(interface).cloned()
    }

    /// Nodes carry out messages to a function of entities.
    pub(crate) fn add_messages(&self, template: String, function: MessageFunction) {
        self.state.lock().messages.insert(template, function);
    }

    /// The function that messages with this name are for.
    pub(crate) fn message_function(&self, template: &str) -> Option<MessageFunction> {
        self.state.lock().messages.get(template).cloned()
    }

    /// Adds a schedule, in place of one of the same name.
    pub(crate) fn add_schedule(&self, scheduled: ScheduledRequests) {
        let schedules = &mut self.state.lock().schedules;
        schedules.retain(|known| known.name() != scheduled.name());
        schedules.push(Arc::new(scheduled));
        self.tell_schedules_changed();
    }

    /// A schedule was added or removed, here or in the journal.
    pub(crate) fn tell_schedules_changed(&self) {
        self.schedules_changed.notify_waiters();
    }

    pub(crate) fn schedules(&self) -> Vec<Arc<ScheduledRequests>> {
        self.state.lock().schedules.clone()
    }

    /// The schedules that the journal keeps, without those whose names the program has.
    pub(crate) async fn kept_schedules(&self) -> Result<Vec<Arc<ScheduledRequests>>, Error> {
        let stored = self.journal.schedules().await?;
        Ok(self.kept_schedules.read(stored, &self.schedules()).await)
    }

    /// The schedules of the program, and those that the journal keeps.
    pub(crate) async fn all_schedules(&self) -> Result<Vec<Arc<ScheduledRequests>>, Error> {
        let kept = self.kept_schedules().await?;
        Ok(self.schedules().into_iter().chain(kept).collect())
    }

    /// Whether the program has a schedule of this name.
    pub(crate) fn declares(&self, name: &str) -> bool {
        self.state.lock().schedules.iter().any(|scheduled| scheduled.name() == name)
    }

    /// The schedule that the journal keeps under this name, if this program can begin it.
    pub(crate) async fn kept_schedule(
        &self,
        name: &str,
    ) -> Result<Option<Arc<ScheduledRequests>>, Error> {
        let kept = self.kept_schedules().await?;
        Ok(kept.into_iter().find(|scheduled| scheduled.name() == name))
    }

    /// The schedule of this name, as the journal has had it within the last second, or has it now if that has another
    /// revision.
    pub(crate) async fn schedule(
        &self,
        name: &str,
        revision: Option<&str>,
    ) -> Result<Option<Arc<ScheduledRequests>>, Error> {
        let mut read = self.schedules_read.lock().await;
        let find = |all: &[Arc<ScheduledRequests>]| {
            all.iter().find(|scheduled| scheduled.name() == name).cloned()
        };
        if let Some((at, all)) = read.as_ref()
            && at.elapsed() < POLL
            && let Some(found) = find(all)
            && found.revision() == revision
        {
            return Ok(Some(found));
        }
        let at = Clock::start();
        let all = self.all_schedules().await?;
        let found = find(&all);
        *read = Some((at, all));
        Ok(found)
    }

    /// Completes when a schedule is added or removed.
    pub(crate) fn schedules_changed(&self) -> Notified<'_> {
        self.schedules_changed.notified()
    }

    /// A node has read the clock of the journal.
    pub(crate) fn read_clock(&self, time: Reading) {
        if let Some(jump) = time.jump {
            self.found(jump);
        }
        self.state.lock().clock = Some(JournalClock::new(Clock::start(), time));
    }

    /// The time of day, by the clock of the journal if a node of this process has read it.
    pub(crate) fn now(&self) -> Timestamp {
        let journal = self.state.lock().clock.as_ref().map(JournalClock::now);
        journal.unwrap_or_else(wall)
    }

    /// A node has begun anew: what the clock of the journal should say, and what it says. The journal takes a jump ahead
    /// that it finds when a node begins for a time in which no node ran.
    pub(crate) fn compare_clocks(&self, expected: &JournalClock, found: &JournalClock) {
        let (from, to) = (expected.now(), found.now());
        if from.as_millis().abs_diff(to.as_millis()) > JUMP {
            self.found(Jump { from, to });
        }
    }

    fn found(&self, jump: Jump) {
        let millis = |time: Timestamp| time.as_millis();
        tracing::warn!(
            from = millis(jump.from),
            to = millis(jump.to),
            "the clock of the journal has jumped (milliseconds since 1970): pauses and time limits go on as \
             declared; schedules and deadlines follow it"
        );
        self.state.lock().clock_jump = Some(jump);
    }

    pub(crate) fn clock_jump(&self) -> Option<Jump> {
        self.state.lock().clock_jump
    }

    pub(crate) fn add_node(&self, node: LocalNode) {
        self.state.lock().nodes.push(node);
    }

    pub(crate) fn remove_node(&self, incarnation: Incarnation) {
        self.state.lock().nodes.retain(|node| node.incarnation != incarnation);
    }

    /// The node of this process with this number, if it has a lease.
    pub(crate) fn node_of_number(&self, number: u64) -> Option<LocalNode> {
        self.state.lock().nodes.iter().find(|node| node.number == number).cloned()
    }

    /// The leases of its nodes, by their numbers in this process.
    pub(crate) fn leases(&self) -> Vec<(u64, Arc<Lease>)> {
        let nodes = &self.state.lock().nodes;
        nodes.iter().map(|node| (node.number, Arc::clone(&node.lease))).collect()
    }

    /// A number for a node that starts in this process.
    pub(crate) fn next_number(&self) -> u64 {
        let last = &mut self.state.lock().last_node;
        *last += 1;
        *last
    }

    /// A node of this process that takes new flows: they take turns.
    pub(crate) fn next_node(&self) -> Option<LocalNode> {
        let nodes = &mut self.state.lock().nodes;
        let next = nodes.iter().position(|node| !node.is_blocked.load(Ordering::Relaxed))?;
        nodes.rotate_left(next + 1);
        nodes.last().cloned()
    }

    /// The flow has ended, waits for an operator, or goes back to the journal because the executor closes.
    pub(crate) fn tell_ended(&self, uid: Uid) {
        self.watched.changed(uid);
        self.waiters.notify(uid);
    }
}
