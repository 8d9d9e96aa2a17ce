//! A node: it owns flows for as long as its lease, and runs them on one arbiter.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::pending;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use asyncsteps_actors::{clock, timer};
use asyncsteps_core::Time;
use asyncsteps_executor::Executor;
use asyncsteps_executor::health::{ConnectionState, Dependency};
use asyncsteps_executor::observe::HostFigures;
use asyncsteps_journal::request::{Claim, Claimed, Disposition, FirstOwner, Submitted};
use asyncsteps_journal::{Epoch, Error, LEASE, POLL, Refused, Uid};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

use crate::answered::{answered, answered_or_lost};
use crate::durable::Durable;
use crate::entity::{CurrentLease, EntityOwner};
use crate::flow::DurableFlow;
use crate::keep::keep;
use crate::lease::Lease;
use crate::life::LeaveReason;
use crate::on_drop::on_drop;
use crate::owned::Taken;
use crate::run::FlowRun;
use crate::scheduler::keep_schedules;
use crate::shared::{DurableShared, Given, GivenRequest, LocalNode};
use crate::suspects::{Suspect, Suspects};
use crate::trim::trim;
use crate::until::{next_change, until};

/// How many flows a node runs at the same time.
const AT_ONCE: usize = 1000;

/// How many of them may be flows whose end is not waited for in this process: a call finds room beside a backlog.
const UNAWAITED: usize = AT_ONCE * 3 / 4;

/// How long a suspect runs alone at first for a death.
const SECOND: Duration = Duration::from_secs(1);

/// A node, which runs durable flows on the arbiter that [started](crate::Durable::start) it.
///
/// It claims flows that no other node has, renews its lease, and drops its flows as if it had crashed
/// when it loses the lease. Its executor is not [ready](Executor::readiness) while the journal is
/// [lost](asyncsteps_journal::Journal::lost_since). Dropping the node does the same; [`stop`](Self::stop) returns its flows
/// to the journal first, so that others go on with them at once.
#[derive(derive_more::Debug)]
#[debug("Node {{ running: {:?}, .. }}", self.running())]
pub struct Node {
    inner: Rc<NodeState>,
    task: JoinHandle<()>,
    _journal: Dependency,
}

struct NodeState {
    shared: Arc<DurableShared>,
    executor: Executor,
    flows: RefCell<BTreeMap<Uid, Rc<DurableFlow>>>,
    /// How many flows it has, including flows that it loads or gives up.
    count: Cell<usize>,
    /// How it releases flows that it gets, once it ends.
    ending: RefCell<Option<LeaveReason>>,
    suspects: Rc<Suspects>,
    /// The lease of its last term.
    lease: CurrentLease,
    entities: Rc<EntityOwner>,
    /// When it looked for bodies that have run for long.
    looked: Cell<Time>,
    /// How many flows went back to the journal because it stops, or its executor closes.
    given_back: Cell<usize>,
    /// A flow has ended.
    changed: Notify,
}

impl Durable {
    /// Begins to run durable requests on this arbiter, with the functions of this executor. Several
    /// arbiters may do so, each with a node of its own.
    ///
    /// # Errors
    /// The errors of the journal.
    pub async fn start(&self, executor: &Executor) -> Result<Node, Error> {
        Node::start(Arc::clone(&self.shared), executor.clone()).await
    }
}

impl Node {
    async fn start(shared: Arc<DurableShared>, executor: Executor) -> Result<Self, Error> {
        shared.keeper().map_err(|error| Error::Storage(Arc::new(error)))?;
        let lease = Arc::new(register(&shared).await?);
        let (current, number) = (Rc::new(RefCell::new(Arc::clone(&lease))), shared.next_number());
        executor.shows(&(Arc::clone(&shared) as Arc<dyn HostFigures>));
        let inner = Rc::new(NodeState {
            entities: EntityOwner::start(&shared, number, Rc::clone(&current)),
            shared,
            executor,
            flows: RefCell::default(),
            count: Cell::new(0),
            ending: RefCell::new(None),
            suspects: Rc::new(Suspects::new(AT_ONCE)),
            lease: current,
            looked: Cell::new(clock::now()),
            given_back: Cell::new(0),
            changed: Notify::new(),
        });
        let (orders, given) = mpsc::unbounded_channel();
        let node = inner.add_to_process(Arc::clone(&lease), orders);
        let journal = Arc::clone(&inner.shared.journal);
        let depends = inner.executor.depends_on(move || ConnectionState {
            name: "journal",
            fault: journal.lost_since().map(|_| "the journal does not answer".to_owned()),
            ..ConnectionState::default()
        });
        let task = actix_rt::spawn(Rc::clone(&inner).serve(LeasedNode { lease, node }, given));
        Ok(Self { inner, task, _journal: depends })
    }

    /// Returns all flows to the journal, and logs how many there were. Bodies that run are dropped; nothing is undone.
    /// A journal that does not answer is waited for as long as the node has its [lease](LEASE), and for a second at
    /// least: after that other nodes get the flows.
    ///
    /// When its executor [closes](Executor::close), a node returns flows that wait, for a time, a signal, a lock or a
    /// retry, and those whose body is [repeatable](asyncsteps_executor::Step::repeatable): the close does not wait for them. Other bodies
    /// go on within the grace.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the node as if it had crashed: others get its flows after the lease.
    pub async fn stop(self) {
        self.task.abort();
        self.inner.end(LeaveReason::Released);
        self.inner.entities.end();
        let is_empty = || (self.inner.count.get() == 0).then_some(());
        let is_empty = async {
            until(&self.inner.changed, is_empty).await;
            self.inner.entities.is_empty().await;
        };
        let left = self.inner.lease.borrow().left();
        tokio::select! {
            biased;
            () = is_empty => {
                let flows = self.inner.given_back.get();
                tracing::info!(flows, "durable requests went back to the journal");
            }
            () = timer::sleep_until(clock::now() + left.max(POLL)) => {
                tracing::error!("the journal does not take the flows of the node back");
            }
        }
    }

    /// How many flows it runs.
    #[must_use]
    pub fn running(&self) -> usize {
        self.inner.flows.borrow().len()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.task.abort();
        self.inner.end(LeaveReason::Lost);
        self.inner.entities.crash();
    }
}

/// A node between two losses of its lease.
struct LeasedNode {
    lease: Arc<Lease>,
    /// As the process knows it.
    node: LocalNode,
}

impl NodeState {
    /// Lets handles of this process pass it requests from now on.
    fn add_to_process(&self, lease: Arc<Lease>, orders: mpsc::UnboundedSender<Given>) -> LocalNode {
        let (incarnation, number) = (lease.node, self.entities.number);
        let node = LocalNode { incarnation, number, orders, lease, is_blocked: Arc::default() };
        self.shared.add_node(node.clone());
        node
    }

    /// Serves one term after the other.
    async fn serve(
        self: Rc<Self>,
        mut term: LeasedNode,
        mut given: mpsc::UnboundedReceiver<Given>,
    ) {
        loop {
            // it gets no more requests when it ends
            let listed = on_drop(|| self.shared.remove_node(term.lease.node));
            tokio::select! {
                biased;
                () = self.keep(&term) => {}
                () = self.claim_all(&term) => {}
                () = self.carry_out_all(&term, &mut given) => {}
                () = keep_schedules(&self.shared, &term.lease.clock) => {}
                () = trim(&self.shared) => {}
            }
            drop(listed);
            term.lease.log_end();
            self.give_back();
            self.suspects.begin_anew();
            let before = term.lease;
            (term, given) = self.begin().await;
            self.shared.compare_clocks(&before.clock, &term.lease.clock);
        }
    }

    /// Has the lease kept until it has ended.
    async fn keep(&self, term: &LeasedNode) {
        match self.shared.keeper() {
            Ok(keeper) => keep(keeper, &self.shared, &term.lease, term.node.clone()).await,
            Err(_) => unreachable!("it was there when the node started"),
        }
    }

    /// Registers until that works, after a lease was lost.
    async fn begin(&self) -> (LeasedNode, mpsc::UnboundedReceiver<Given>) {
        self.shared.figures.leases_lost.fetch_add(1, Relaxed);
        loop {
            match register(&self.shared).await.map(Arc::new) {
                Ok(lease) => {
                    let (orders, given) = mpsc::unbounded_channel();
                    let node = self.add_to_process(Arc::clone(&lease), orders);
                    self.lease.replace(Arc::clone(&lease));
                    return (LeasedNode { lease, node }, given);
                }
                Err(error) => {
                    tracing::warn!(%error, "the journal gives no lease: trying again");
                    timer::sleep_until(clock::now() + POLL).await;
                }
            }
        }
    }

    /// Carries out what handles of this process give it.
    async fn carry_out_all(
        self: &Rc<Self>,
        term: &LeasedNode,
        given: &mut mpsc::UnboundedReceiver<Given>,
    ) {
        while let Some(given) = given.recv().await {
            match given {
                Given::Request(request) => {
                    let request = request.lock().take();
                    request.into_iter().for_each(|request| self.store(term, request));
                }
                Given::Work(work) => work(&self.executor),
                Given::Ask(answer) => drop(answer),
            }
        }
        pending::<()>().await;
    }

    /// Takes flows and reads news, whenever something may have changed; until the lease has ended.
    async fn claim_all(self: &Rc<Self>, term: &LeasedNode) {
        let mut changes = self.shared.journal.changes();
        let begun = clock::now();
        loop {
            changes.mark_unchanged();
            let mut look = POLL;
            match self.claim(term, begun).await {
                // what it has changes by time as well
                Ok(()) if self.count.get() == 0 && self.entities.is_without() => {
                    look = self.shared.journal.next_look(term.lease.node);
                }
                Ok(()) => {}
                Err(Error::Refused(Refused::NoLease(_))) => return,
                Err(error) => {
                    tracing::warn!(%error, "the journal gives no flows: trying again");
                }
            }
            next_change(&mut changes, self.changed.notified(), look).await;
        }
    }

    /// Takes as many flows as there is room for, and notifies flows of news. The term has begun at this time.
    async fn claim(self: &Rc<Self>, term: &LeasedNode, begun: Time) -> Result<(), Error> {
        let journal = &self.shared.journal;
        for news in journal.news(term.lease.node).await? {
            match self.flows.borrow().get(&news.uid) {
                Some(flow) => flow.owned.writer.tell_inbox(news.inbox),
                None => self.entities.hears(news),
            }
        }
        self.entities.leave_idle();
        if clock::now() >= self.looked.get() + POLL {
            self.looked.set(clock::now());
            self.flows.borrow().values().for_each(|flow| flow.log_hung());
        }
        // what its executor would refuse is left to other nodes
        if self.executor.is_closing() {
            return Ok(());
        }
        // flows that it returned earlier are not taken as from a dead node
        if self.gives_back() && clock::now() < begun + LEASE {
            return Ok(());
        }
        // the first may be a suspect that runs alone
        if self.suspects.begins() {
            let first = self.ask(term, 1, Vec::new()).await?;
            self.suspects.first_asked();
            for taken in first {
                self.spawn_first(taken);
            }
        }
        let count = self.count.get();
        let has = |uid: &Uid| self.flows.borrow().contains_key(uid);
        let awaited = self.shared.waiters.some(AT_ONCE.saturating_sub(count), has);
        let room = UNAWAITED.saturating_sub(count);
        if room == 0 && awaited.is_empty() || self.suspects.is_alone() {
            return Ok(());
        }
        for taken in self.ask(term, room, awaited).await? {
            self.spawn(taken);
        }
        Ok(())
    }

    /// Takes up to this number of flows, and those that are waited for.
    async fn ask(
        &self,
        term: &LeasedNode,
        limit: usize,
        awaited: Vec<Uid>,
    ) -> Result<Vec<Taken>, Error> {
        let ticket = match Uid::random() {
            Ok(ticket) => ticket,
            Err(error) => panic!("the system gives no random bytes: {error}"),
        };
        let claim = Claim {
            node: term.lease.node,
            ticket,
            programs: self.shared.programs(),
            limit,
            awaited,
            suspects: self.suspects.limit(),
        };
        Taken::claim(&self.shared.journal, &term.lease, claim).await
    }

    /// Begins to run a flow.
    fn spawn(self: &Rc<Self>, taken: Taken) -> JoinHandle<()> {
        actix_rt::spawn(FlowCountGuard::new(self).run(taken))
    }

    /// Begins to run the first flow of a term. A suspect runs alone at first, a second for each death in a row but the
    /// first one: so one that kills the process is found, however many requests there are.
    fn spawn_first(self: &Rc<Self>, taken: Taken) {
        let Claimed { deaths, is_suspect, .. } = taken.claimed;
        let run = self.spawn(taken);
        let alone = SECOND * deaths.saturating_sub(1);
        if is_suspect && !alone.is_zero() {
            let (node, is_alone) = (Rc::clone(self), self.suspects.alone(alone));
            actix_rt::spawn(async move {
                tokio::select! {
                    biased;
                    _ = run => {}
                    () = timer::sleep_until(clock::now() + alone) => {}
                }
                drop(is_alone);
                node.changed.notify_waiters();
            });
        }
    }

    /// Stores a request, and begins to run it if there is room; else it waits for its turn among all, before
    /// what no caller waits for if one waits for it. The caller may leave meanwhile.
    fn store(
        self: &Rc<Self>,
        term: &LeasedNode,
        GivenRequest { mut submit, answer }: GivenRequest,
    ) {
        let room = if self.shared.waiters.has(submit.uid) { AT_ONCE } else { UNAWAITED };
        let mut place = (self.count.get() < room && !self.suspects.is_alone())
            .then(|| FlowCountGuard::new(self));
        let (node, incarnation) = (Rc::clone(self), term.lease.node);
        let lease = Arc::clone(&term.lease);
        actix_rt::spawn(async move {
            let journal = &node.shared.journal;
            if place.is_some() {
                submit.owner = FirstOwner::Node(incarnation);
            }
            let (mut stored, was_lost) = answered_or_lost(|| journal.submit(submit.clone())).await;
            if let Err(Error::Refused(Refused::NoLease(_))) = stored {
                // the process was held up until the lease had expired: any node takes the flow
                (place, submit.owner) = (None, FirstOwner::Any);
                stored = answered(|| journal.submit(submit.clone())).await;
            }
            let is_new = matches!(stored, Ok(Submitted::New));
            // it was stored by a request whose answer was lost, or by another one with this uid: if the node owns it,
            // it is returned, and any node takes it
            let is_known = matches!(stored, Ok(Submitted::Known(uid)) if uid == submit.uid);
            // a caller that has left need not be notified
            let _ = answer.send(stored);
            let taken = Taken::new(journal, &lease, (submit.uid, Epoch::new(1)));
            match place {
                Some(place) if is_new => place.run(taken).await,
                Some(_place) if was_lost && is_known => taken.give_back(Disposition::Release).await,
                Some(_) | None => {}
            }
        });
    }

    /// Ends the node: the flows that it has and gets are dropped for this reason.
    fn end(&self, why: LeaveReason) {
        self.leave_all(&why);
        self.ending.replace(Some(why));
    }

    /// The lease has ended, and the process lives: it returns its flows, which counts as no death.
    fn give_back(&self) {
        self.leave_all(&LeaveReason::Released);
        self.entities.leave_all();
    }

    /// Whether it returns flows that it had under an earlier lease.
    fn gives_back(&self) -> bool {
        self.flows.borrow().values().any(|flow| flow.is_left())
    }

    fn leave_all(&self, why: &LeaveReason) {
        for flow in self.flows.borrow().values() {
            flow.leave(why.clone());
        }
    }
}

/// A flow that a node has, until this is dropped.
struct FlowCountGuard(Rc<NodeState>);

impl FlowCountGuard {
    fn new(node: &Rc<NodeState>) -> Self {
        node.count.set(node.count.get() + 1);
        Self(Rc::clone(node))
    }
}

impl FlowCountGuard {
    /// Runs a flow until it ends or the node leaves it.
    async fn run(self, taken: Taken) {
        let node = &*self.0;
        let NodeState { shared, executor, suspects, .. } = node;
        let suspect = Suspect::new(suspects, taken.claimed);
        let run = FlowRun { shared, executor, node: node.entities.number, suspects, taken: &taken };
        let Some(ready) = run.load().await else { return };
        let flow = Rc::clone(&ready.flow);
        if let Some(ending) = &*node.ending.borrow() {
            flow.leave(ending.clone());
        }
        if taken.lease.has_ended() {
            flow.leave(LeaveReason::Lost);
        }
        node.flows.borrow_mut().insert(flow.owned.uid(), Rc::clone(&flow));
        tokio::select! {
            biased;
            () = run.run(ready) => {}
            () = suspect.makes_way(&flow.activity, &node.changed) => {}
        }
        let is_stopping = node.executor.is_closing() || node.ending.borrow().is_some();
        if is_stopping && matches!(flow.life().left(), Some(LeaveReason::Released)) {
            node.given_back.set(node.given_back.get() + 1);
        }
        if !flow.life().left().is_some_and(LeaveReason::cuts) {
            suspect.gets_through();
        }
        let mut flows = node.flows.borrow_mut();
        if flows.get(&flow.owned.uid()).is_some_and(|other| Rc::ptr_eq(other, &flow)) {
            flows.remove(&flow.owned.uid());
        }
    }
}

impl Drop for FlowCountGuard {
    fn drop(&mut self) {
        self.0.count.set(self.0.count.get() - 1);
        self.0.changed.notify_waiters();
    }
}

/// A lease for a node of this process.
async fn register(shared: &DurableShared) -> Result<Lease, Error> {
    Lease::register(&*shared.journal, |time| shared.read_clock(time)).await
}
