//! The handle of durable requests.

use std::sync::Arc;
use std::time::Duration;

use asyncsteps_actors::carried;
use asyncsteps_executor::iface::FunctionName;
use asyncsteps_executor::message::Request;
use asyncsteps_executor::{Caller, KeyPolicy};
use asyncsteps_journal::limits::BATCH;
use asyncsteps_journal::record::{Started, StoredRecord};
use asyncsteps_journal::request::{
    CallerKey, Cancelled, CancelledBy, FirstOwner, FlowInfo, FlowState, Query, Resume, Signal,
    Status, StoredCancel, Submit, Submitted,
};
use asyncsteps_journal::{Error, Journal, Jump, Path, Refused, Uid, Value};
use serde::Serialize;
use serde_json::Map;

use crate::answered::answered;
use crate::caller::{self, Origin};
use crate::due::due_of;
use crate::json;
use crate::records;
use crate::schedule::{Schedule, ScheduledRequests};
use crate::shared::{DurableFunction, DurableShared};
use crate::submit::{Cancelling, NotSubmitted, Options};

/// Requests that survive a crash, and the journal that keeps them. Clones share both.
///
/// But for [`start`](Self::start), which runs functions and so needs an arbiter, its calls work on any thread of a tokio runtime. Their futures are `Send` if their arguments are, so
/// a handler of axum may await them.
///
/// 1. [`on`](Self::on) makes functions of an interface durable.
/// 2. [`start`](Self::start) begins to run them, on each arbiter that is to.
/// 3. Callers call the functions like any other, or [`submit`](Self::submit) them and ask later.
#[derive(Clone, derive_more::Debug)]
#[debug("Durable {{ journal: {:?}, .. }}", self.shared.journal)]
pub struct Durable {
    pub(crate) shared: Arc<DurableShared>,
}

impl Durable {
    /// Durable requests that this journal keeps.
    pub fn new(journal: impl Journal) -> Self {
        Self { shared: DurableShared::new(Arc::new(journal)) }
    }

    /// How many requests of a caller may wait: requests that have not ended and that no node runs, because they have
    /// not begun, or wait for a time, a signal or an operator. [`WAITING_PER_CALLER`](crate::WAITING_PER_CALLER) unless
    /// set; the same number for each journal, as all its programs should have it.
    ///
    /// A further one is refused with DefenseRejected. Calls of durable functions and requests stored by the interface
    /// for [jobs](crate::jobs) count for the user of the request. A caller without a user is its address, `/32` or
    /// `/64` (FTN8 §2.14), and all of them together have ten times as many. Not counted are requests that the program
    /// itself [submits](Self::submit), schedules, and callers of the level
    /// [`System`](asyncsteps_executor::security::SecurityLevel::System).
    #[must_use]
    pub fn waiting_per_caller(self, most: u64) -> Self {
        self.shared.settings.lock().waiting_per_caller = most;
        self
    }

    /// How long requests are remembered after their end, with their keys and results; for ever unless set. Nodes
    /// [trim](Self::trim) older ones each minute.
    #[must_use]
    pub fn remembers(self, time: Duration) -> Self {
        self.shared.settings.lock().remembers = Some(time);
        self
    }

    /// Stores a request, and returns its name when it is stored: it runs to an end then, as long as the journal
    /// survives. No [quota](Self::waiting_per_caller) counts it. Once the executor of its function is built, it is
    /// checked first: a request that the function would refuse, for the level of its caller or its parameters, is not
    /// stored.
    ///
    /// # Errors
    /// If it is not stored, see [`NotSubmitted`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the request may be stored or not; one that is stored runs.
    pub async fn submit(
        &self,
        function: &str,
        params: impl Serialize,
        options: Options,
    ) -> Result<Uid, NotSubmitted> {
        let program = self.program(function)?;
        let params = program.check(json::params(&params)?, &options.caller, options.origin)?;
        self.submit_checked(program, params, options).await
    }

    /// Stores a request that was checked.
    pub(crate) async fn submit_checked(
        &self,
        program: Arc<DurableFunction>,
        params: Map<String, serde_json::Value>,
        options: Options,
    ) -> Result<Uid, NotSubmitted> {
        let (template, version) = (program.template.clone(), program.version);
        let Options { caller, key, policy, tags, deadline, start, uid, origin, parent } = options;
        let own = match uid {
            Some(uid) => uid,
            None => Uid::random().map_err(NotSubmitted::NoRandom)?,
        };
        let user = caller::write(&caller);
        let scope = || format!("{} {template}", user.as_deref().unwrap_or_default());
        let key = key.map(|key| CallerKey { scope: scope(), key });
        let trace = asyncsteps_actors::trace::current().map(carried::to_record);
        let started = Started {
            template,
            version,
            parameters: json::encode_params(&params)?,
            user,
            deadline,
            trace,
            schedule: None,
            is_asked_for: false,
            parent,
        };
        let owner = start.map_or(FirstOwner::Any, FirstOwner::AnyFrom);
        let most = self.shared.settings.lock().waiting_per_caller;
        let quota = origin.and_then(|origin| caller::quota(&caller, origin, most));
        let reruns = policy == KeyPolicy::RerunFailed;
        let mut submit = Submit { key, reruns, tags, quota, ..Submit::new(own, started, owner) };
        let mut stored = self.store(submit.clone()).await;
        if let Err(Error::Refused(Refused::KeyInUse { uid, .. })) = stored
            && let Some(equal) = self.equal(uid, &program, (params, &caller)).await?
        {
            submit.started.parameters = equal;
            stored = self.store(submit).await;
        }
        match stored? {
            Submitted::Known(uid) if uid != own && policy == KeyPolicy::Reject => {
                let outcome = self.shared.journal.status(uid).await?.flow.outcome;
                Err(NotSubmitted::KeyTaken { uid, outcome })
            }
            Submitted::Known(uid) => Ok(uid),
            Submitted::New | _ => Ok(own),
        }
    }

    /// The parameters of a request that is stored, if it is one of the same function with equal parameters, though in
    /// another form: it was stored under an earlier version of the interface, or with fields that say nothing.
    async fn equal(
        &self,
        uid: Uid,
        program: &DurableFunction,
        (params, caller): (Map<String, serde_json::Value>, &Caller),
    ) -> Result<Option<Value>, Error> {
        let loaded = self.shared.journal.load(uid).await?;
        let started = records::started(&loaded).filter(|it| it.template == program.template);
        let stored = started.and_then(|started| started.parameters.decode().ok());
        let request = |params| Request::new(&program.function, params);
        let canonical = |params| program.checks.canonical(request(params), caller);
        let stored = stored.and_then(canonical);
        let is_equal = stored.is_some() && stored == canonical(params);
        Ok(started.filter(|_| is_equal).map(|started| started.parameters.clone()))
    }

    /// Stores a request; one that begins at once is passed to a node of this process, if there is
    /// one.
    async fn store(&self, mut submit: Submit) -> Result<Submitted, Error> {
        let begins = submit.owner == FirstOwner::Any;
        if let Some(node) = self.shared.next_node().filter(|_| begins) {
            submit = match node.store(submit).await {
                Ok(stored) => return stored,
                Err(submit) => submit,
            };
        }
        answered(|| self.shared.journal.submit(submit.clone())).await
    }

    /// Begins a request of the function at each time of a schedule, while nodes run. A schedule of the same name before
    /// it is replaced.
    ///
    /// The next request of a schedule is stored before its time, once, however many nodes know the schedule.
    /// So if no node runs at that time, it begins when one does, unless that is [too late](Schedule::catch_up); later
    /// times at which no node ran are left out. While an earlier request has not ended, none begins, unless it
    /// [may](Schedule::overlap).
    /// If the expression is changed by a deploy, the request that is stored already still begins.
    ///
    /// # Errors
    /// If no durable function has this name, or the parameters cannot be stored; [`NotSubmitted::Refused`] if the
    /// executor of the function is built, and the function would refuse such requests.
    pub fn schedule(
        &self,
        schedule: Schedule,
        function: &str,
        params: impl Serialize,
    ) -> Result<(), NotSubmitted> {
        self.shared.add_schedule(self.scheduled(schedule, function, params, None)?);
        Ok(())
    }

    /// The requests of a schedule, which were checked.
    pub(crate) fn scheduled(
        &self,
        schedule: Schedule,
        function: &str,
        params: impl Serialize,
        origin: Option<Origin>,
    ) -> Result<ScheduledRequests, NotSubmitted> {
        let (program, caller) = (self.program(function)?, schedule.caller_of_requests());
        let params = program.check(json::params(&params)?, caller, origin)?;
        let parameters = json::encode_params(&params)?;
        Ok(ScheduledRequests::new(schedule, program.template.clone(), parameters))
    }

    /// The durable function of this name.
    pub(crate) fn program(&self, function: &str) -> Result<Arc<DurableFunction>, NotSubmitted> {
        let name: Option<FunctionName> = function.parse().ok();
        let template = name.map(|it| template_of(it.iface(), it.version().major, it.func()));
        let program = template.and_then(|template| self.shared.program(&template));
        program.ok_or_else(|| NotSubmitted::NoFunction(function.to_owned()))
    }

    /// The status of a request. A request that a node has is `due` when its first wait ends, or its next attempt
    /// begins, if that is recorded.
    ///
    /// # Errors
    /// [`Refused::NoFlow`](asyncsteps_journal::Refused::NoFlow) if there is none of this name, or the errors of the
    /// journal.
    pub async fn status(&self, uid: Uid) -> Result<Status, Error> {
        let mut status = self.shared.journal.status(uid).await?;
        let query = Query { uid: Some(uid), limit: 1, ..Query::default() };
        if let Some(FlowInfo { user, key, tags, .. }) = self.list(query).await?.pop() {
            (status.flow.user, status.flow.key, status.flow.tags) = (user, key, tags);
        }
        if status.flow.state == FlowState::Running && status.flow.cancel.is_none() {
            status.flow.due = due_of(&self.records(uid).await?, self.shared.now());
        }
        Ok(status)
    }

    /// The records of a request, for people and tools.
    ///
    /// # Errors
    /// The errors of [`status`](Self::status).
    pub async fn records(&self, uid: Uid) -> Result<Vec<StoredRecord>, Error> {
        Ok(self.shared.journal.load(uid).await?.records)
    }

    /// Sends a signal to a request: its step of this name takes the value, now or when it comes to it. It
    /// is stored when this completes.
    ///
    /// # Errors
    /// [`Refused::HasEnded`](asyncsteps_journal::Refused::HasEnded),
    /// [`Refused::TooManySignals`](asyncsteps_journal::Refused::TooManySignals),
    /// [`Refused::TooManySignalBytes`](asyncsteps_journal::Refused::TooManySignalBytes), or the errors of
    /// [`status`](Self::status); [`NotSubmitted::Parameters`] if the value cannot be stored.
    pub async fn signal(
        &self,
        uid: Uid,
        name: &str,
        value: impl Serialize,
    ) -> Result<(), NotSubmitted> {
        let id = Uid::random().map_err(NotSubmitted::NoRandom)?;
        let value = Value::encode(&value)?;
        Ok(self.signal_once(uid, id, name, value).await?)
    }

    /// The same with an id: the same id again is the same signal.
    pub(crate) async fn signal_once(
        &self,
        uid: Uid,
        id: Uid,
        name: &str,
        value: Value,
    ) -> Result<(), Error> {
        // names with this character are those of what operators settle
        let signal = Signal { id, name: name.replace('\u{1}', " "), value };
        answered(|| self.shared.journal.signal(uid, signal.clone())).await
    }

    /// Requests that a request ends, and its steps are undone. `by` says who it was, for people.
    /// [`result`](Self::result) says what became true.
    ///
    /// # Errors
    /// The errors of [`status`](Self::status).
    pub async fn cancel(&self, uid: Uid, by: &str) -> Result<Cancelling, Error> {
        let cancelled = self.cancelled(uid, by.into(), None).await?;
        Ok(cancelled.map_or(Cancelling::TooLate, |_| Cancelling::Requested))
    }

    /// The cancel that ends a request; `None` if none does any more, or the step at this path is done.
    pub(crate) async fn cancelled(
        &self,
        uid: Uid,
        by: CancelledBy,
        unless: Option<&Path>,
    ) -> Result<Option<StoredCancel>, Error> {
        match self.shared.journal.cancel(uid, by, unless.cloned()).await? {
            // no step begins to commit after a cancel that is stored, so this is not decided otherwise later
            Cancelled::Recorded(cancel) => {
                let is_committed = self.is_committed(uid).await?;
                Ok((!is_committed).then_some(cancel))
            }
            Cancelled::TooLate | _ => Ok(None),
        }
    }

    /// Requests, oldest first, see [`Journal::list`]: as many as the query asks for, which takes several requests to the
    /// journal if that is more than [`BATCH`].
    ///
    /// # Errors
    /// The errors of the journal.
    pub async fn list(&self, mut query: Query) -> Result<Vec<FlowInfo>, Error> {
        let mut flows = Vec::new();
        loop {
            let page = self.shared.journal.list(query.clone()).await?;
            let is_full = page.len() == BATCH;
            query.limit = query.limit.saturating_sub(page.len());
            query.after = page.last().map_or(query.after, |flow| flow.number);
            flows.extend(page);
            if !is_full || query.limit == 0 {
                return Ok(flows);
            }
        }
    }

    /// Lets a request go on that waits for an operator.
    ///
    /// # Errors
    /// The errors of [`Journal::resume`].
    pub async fn resume(&self, uid: Uid, how: Resume) -> Result<(), Error> {
        self.shared.journal.resume(uid, how).await
    }

    /// Forgets requests that ended so long ago, with their keys; returns how many those were, see
    /// [`Journal::trim`]. Only time counts in which nodes ran, so a jump of the clock makes it forget nothing
    /// early.
    ///
    /// # Errors
    /// The errors of the journal.
    pub async fn trim(&self, age: Duration) -> Result<usize, Error> {
        self.shared.journal.trim(age).await
    }

    /// The last jump of the journal's clock by more than a minute that a node of this process has found. It is
    /// in the log too.
    #[must_use]
    pub fn clock_jump(&self) -> Option<Jump> {
        self.shared.clock_jump()
    }
}

/// The name of a function in the journal: it goes on under later minor versions.
pub(crate) fn template_of(iface: &str, major: u32, function: &str) -> String {
    format!("{iface}:{major}:{function}")
}

/// A durable function that was just declared, to say more about it.
#[derive(Debug)]
pub struct Declared<'a> {
    shared: &'a Arc<DurableShared>,
    template: String,
}

#[expect(
    clippy::must_use_candidate,
    clippy::return_self_not_must_use,
    reason = "what is given back only serves to say more about it"
)]
impl<'a> Declared<'a> {
    pub(crate) fn new(durable: &'a Durable, template: String) -> Self {
        Self { shared: &durable.shared, template }
    }
    /// The version of the function's steps, 1 by default. A node goes on with requests of its own version and of
    /// [compatible](Self::compatible) versions.
    pub fn version(self, version: u32) -> Self {
        self.shared.change_program(&self.template, |program| program.version = version);
        self
    }

    /// Other versions whose requests this one goes on with.
    pub fn compatible(self, versions: impl IntoIterator<Item = u32>) -> Self {
        let versions = versions.into_iter().collect();
        self.shared.change_program(&self.template, |program| program.compatible = versions);
        self
    }
}
