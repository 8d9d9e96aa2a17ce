//! The world outside of the cluster: a bank and a stock that know keys, and no crash; and what has to be true of it.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use asyncsteps_core::{BodyResult, Error, codes};
use asyncsteps_durable::journal::Uid;
use asyncsteps_journal::record::Ending;
use asyncsteps_journal::request::{FlowInfo, FlowState};
use asyncsteps_journal::{Event, Journal as _, StoredRecord};
use asyncsteps_simulation::{Cluster, Random};
use futures_util::FutureExt as _;

use crate::events::Readers;

/// How many effects a whole order has, and a delivery.
const EFFECTS: usize = 4;
const OF_DELIVERY: usize = 1;

/// The world outside of the cluster. Cloning shares.
#[derive(Clone)]
pub(crate) struct World(Arc<Outside>);

struct Outside {
    /// What was done for each key.
    effects: Mutex<BTreeMap<String, Effect>>,
    /// The orders that the journal has taken.
    accepted: Mutex<BTreeSet<Uid>>,
    /// What goes on in each process for each customer: the key of the order.
    inside: Mutex<BTreeMap<(Process, u32), BTreeMap<String, usize>>>,
    /// The first thing that should not have happened.
    wrong: Mutex<Option<String>>,
    is_open: AtomicBool,
    sends_out: AtomicBool,
    random: Mutex<Random>,
    /// Of what orders emit, if they do.
    readers: Option<Readers>,
}

/// A life of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Process {
    pub(crate) name: String,
    pub(crate) starts: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Effect {
    is_begun: bool,
    is_done: bool,
    is_undone: bool,
    undos: u32,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic")
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        Self::of(seed, None)
    }

    /// The same, in which orders emit how far they are.
    pub(crate) fn watched(seed: u64) -> Self {
        Self::of(seed, Some(Readers::default()))
    }

    fn of(seed: u64, readers: Option<Readers>) -> Self {
        Self(Arc::new(Outside {
            effects: Mutex::default(),
            accepted: Mutex::default(),
            inside: Mutex::default(),
            wrong: Mutex::default(),
            is_open: AtomicBool::new(true),
            sends_out: AtomicBool::new(false),
            random: Mutex::new(Random::new(seed)),
            readers,
        }))
    }

    /// A time between two orders of a customer.
    pub(crate) fn pause(&self) -> Duration {
        lock(&self.0.random).delay(Duration::from_millis(500))
    }

    pub(crate) fn one_in(&self, times: u32) -> bool {
        lock(&self.0.random).one_in(times)
    }

    /// Takes some time, and fails once in `fails_one_in` times.
    pub(crate) async fn takes_time(&self, fails_one_in: u32) -> BodyResult<()> {
        let (time, fails) = {
            let mut random = lock(&self.0.random);
            (random.delay(Duration::from_millis(50)), random.one_in(fails_one_in))
        };
        asyncsteps_core::sleep(time).await;
        if fails { Err("NotToday".into()) } else { Ok(()) }
    }

    pub(crate) async fn does(
        &self,
        process: &Process,
        customer: u32,
        key: &str,
        fails_one_in: u32,
    ) -> BodyResult<()> {
        let _inside = self.enter(process, customer, key);
        self.takes_time(fails_one_in).await?;
        let mut effects = lock(&self.0.effects);
        let effect = effects.entry(key.to_owned()).or_default();
        // what was undone by its key is not done any more
        effect.is_done |= !effect.is_undone;
        Ok(())
    }

    /// The same for something that would be done again each time: it must not begin twice, nor after it was undone.
    pub(crate) async fn does_once(
        &self,
        process: &Process,
        customer: u32,
        key: &str,
    ) -> BodyResult<()> {
        let before = {
            let mut effects = lock(&self.0.effects);
            let effect = effects.entry(key.to_owned()).or_default();
            mem::replace(effect, Effect { is_begun: true, ..*effect })
        };
        if before.is_begun || before.is_undone {
            self.is_wrong(format!("{process:?} begins {key} again: {before:?}"));
        }
        self.does(process, customer, key, 32).await
    }

    pub(crate) async fn undoes(
        &self,
        process: &Process,
        customer: u32,
        key: &str,
    ) -> BodyResult<()> {
        let _inside = self.enter(process, customer, key);
        // what it needs may be away while orders come: it is tried again, and no operator is asked
        let fails_one_in = if self.is_open() { 10 } else { 0 };
        self.takes_time(fails_one_in).await.map_err(|_| Error::new(codes::COMM_ERROR))?;
        let mut effects = lock(&self.0.effects);
        let effect = effects.entry(key.to_owned()).or_default();
        (effect.is_done, effect.is_undone) = (false, true);
        effect.undos += 1;
        Ok(())
    }

    /// A process does something for an order of a customer: for no other one at the same time.
    fn enter(&self, process: &Process, customer: u32, key: &str) -> Inside {
        let order = key.get(..32).unwrap_or(key).to_owned();
        let place = (process.clone(), customer);
        let mut inside = lock(&self.0.inside);
        let orders = inside.entry(place.clone()).or_default();
        *orders.entry(order.clone()).or_default() += 1;
        if orders.len() > 1 {
            self.is_wrong(format!(
                "{process:?} is in two orders of customer {customer}: {orders:?}"
            ));
        }
        Inside { world: self.clone(), place, order }
    }

    fn is_wrong(&self, what: String) {
        lock(&self.0.wrong).get_or_insert(what);
    }

    pub(crate) fn accept(&self, uid: Uid) {
        lock(&self.0.accepted).insert(uid);
        if let Some(readers) = self.readers() {
            readers.add(uid);
        }
    }

    pub(crate) fn readers(&self) -> Option<&Readers> {
        self.0.readers.as_ref()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.0.is_open.load(Ordering::Relaxed)
    }

    pub(crate) fn open(&self, is_open: bool) {
        self.0.is_open.store(is_open, Ordering::Relaxed);
    }

    pub(crate) fn sends_out(&self) -> bool {
        self.0.sends_out.load(Ordering::Relaxed)
    }

    /// From now on the shop sends out.
    pub(crate) fn send_out(&self) {
        self.0.sends_out.store(true, Ordering::Relaxed);
    }

    /// Each accepted order has ended, with all of its effects if it was completed, and else with none; one that was
    /// cancelled is not completed.
    pub(crate) fn check(&self, cluster: &Cluster) -> Result<(), String> {
        if let Some(wrong) = lock(&self.0.wrong).take() {
            return Err(wrong);
        }
        for state in [
            FlowState::Ready,
            FlowState::New,
            FlowState::Suspect,
            FlowState::Running,
            FlowState::Parked,
            FlowState::Paused,
            FlowState::Dead,
        ] {
            if let Some(open) = cluster.requests(state).first() {
                return Err(format!("{open:?}\n{}", records(cluster, open.uid)));
            }
        }
        let ended = cluster.requests(FlowState::Ended);
        let known: BTreeSet<Uid> = ended.iter().map(|request| request.uid).collect();
        if let Some(uid) = lock(&self.0.accepted).difference(&known).next() {
            return Err(format!("{uid} was accepted, and the journal does not have it"));
        }
        ended.iter().try_for_each(|request| self.check_effects(cluster, request))
    }

    fn check_effects(&self, cluster: &Cluster, request: &FlowInfo) -> Result<(), String> {
        let done: Vec<_> = self.effects(request.uid).filter(|(_, effect)| effect.is_done).collect();
        let ending = cluster.journal().status(request.uid).now_or_never();
        let is_completed = match ending {
            Some(Ok(status)) => matches!(status.ending, Some(Ending::Completed(_))),
            other => return Err(format!("{} has no status: {other:?}", request.uid)),
        };
        let is_cancelled = request.cancel.is_some();
        // only the deadline of the request may come before
        let is_told = match status_ending(cluster, request.uid) {
            Some(Ending::Failed(_)) if is_cancelled => has_deadline(cluster, request.uid),
            Some(Ending::Cancelled) => is_cancelled,
            _ => true,
        };
        if !is_told {
            let records = records(cluster, request.uid);
            return Err(format!(
                "cancelled: {is_cancelled}, and it has ended otherwise\n{records}"
            ));
        }
        let all = if request.template.ends_with("deliver") { OF_DELIVERY } else { EFFECTS };
        if done.len() == if is_completed { all } else { 0 } && !(is_completed && is_cancelled) {
            return Ok(());
        }
        let keys: Vec<_> = done.iter().map(|(key, _)| key).collect();
        let records = records(cluster, request.uid);
        Err(format!(
            "completed: {is_completed}, cancelled: {is_cancelled}, and of its effects there are {keys:?}\n{records}"
        ))
    }

    /// Orders that came when nothing went wrong any more, after this many others: each was carried out by the node that
    /// had it first, and what was undone was undone once.
    pub(crate) fn check_calm(&self, cluster: &Cluster, others: usize) -> Result<(), String> {
        let ended = cluster.requests(FlowState::Ended);
        for request in ended.iter().skip(others) {
            let undos = self.effects(request.uid).map(|(_, effect)| effect.undos).max();
            // one that ends while a cancel comes begins anew, to end by that; one that is undone waits for what is away
            let ends_once = request.cancel.is_none() && undos.unwrap_or_default() == 0;
            let is_taken = request.epoch.get() > 1 && ends_once;
            if is_taken || undos > Some(1) {
                let records = records(cluster, request.uid);
                return Err(format!("{undos:?} undos, {request:?}\n{records}"));
            }
        }
        Ok(())
    }

    /// The effects of a request.
    fn effects(&self, uid: Uid) -> impl Iterator<Item = (String, Effect)> {
        let id = uid.to_string();
        let effects = lock(&self.0.effects);
        let of_request = effects.range(id.clone()..).take_while(|(key, _)| key.starts_with(&id));
        let of_request: Vec<_> = of_request.map(|(key, effect)| (key.clone(), *effect)).collect();
        of_request.into_iter()
    }
}

/// What a process does for an order, until it is dropped.
struct Inside {
    world: World,
    place: (Process, u32),
    order: String,
}

impl Drop for Inside {
    fn drop(&mut self) {
        let mut inside = lock(&self.world.0.inside);
        let Some(orders) = inside.get_mut(&self.place) else { return };
        if let Some(count) = orders.get_mut(&self.order) {
            *count -= 1;
            if *count == 0 {
                orders.remove(&self.order);
            }
        }
    }
}

fn status_ending(cluster: &Cluster, uid: Uid) -> Option<Ending> {
    cluster.journal().status(uid).now_or_never()?.ok()?.ending
}

fn has_deadline(cluster: &Cluster, uid: Uid) -> bool {
    let Some(Ok(loaded)) = cluster.journal().load(uid).now_or_never() else { return false };
    let mut events = loaded.records.iter().map(|stored| &stored.record.event);
    events.any(|event| matches!(event, Event::Started(started) if started.deadline.is_some()))
}

/// What a request has recorded.
fn records(cluster: &Cluster, uid: Uid) -> String {
    let Some(Ok(loaded)) = cluster.journal().load(uid).now_or_never() else {
        return "no records".to_owned();
    };
    let line = |stored: &StoredRecord| format!("  {:?} {:?}\n", stored.id, stored.record);
    loaded.records.iter().map(line).collect()
}
