//! The entities that a node owns.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use asyncsteps_actors::sync::AwayWait;
use asyncsteps_actors::{clock, timer};
use asyncsteps_core::{Error, Time, codes};
use asyncsteps_journal::request::News;
use asyncsteps_journal::{Epoch, Uid};
use dashmap::Entry;
use tokio::sync::Notify;

use super::asks::{Asks, send};
use super::hop::MOVED;
use super::kind::{CallForm, EntityKind, EntityName};
use super::owned::OwnedEntity;
use crate::detached::detached;
use crate::lease::Lease;
use crate::on_drop::on_drop;
use crate::owners::KnownEntity;
use crate::shared::{DurableShared, LocalNode};
use crate::until::until;

/// How many entities a node has at the most.
const MOST: usize = 100_000;

/// Of how many entities those that were not called for longest are given back soon.
const ROOM: usize = MOST / 2;

/// How long an entity without a call stays with its node.
const IDLE: Duration = Duration::from_secs(60);

/// How long an entity without a call is left as it is, and how often a node looks.
const SHORT: Duration = Duration::from_secs(1);

/// How long a call or a node waits at least before it looks again.
pub(super) const PAUSE: Duration = Duration::from_millis(20);

/// How long a node leaves an entity to others that it has given back to one: longer than that waits until it looks.
const LETS_OTHERS: Duration = PAUSE.saturating_mul(3);

/// The lease of a node in its present term.
pub(crate) type CurrentLease = Rc<RefCell<Arc<Lease>>>;

thread_local! {
    static HERE: RefCell<Vec<Weak<EntityOwner>>> = const { RefCell::new(Vec::new()) };
}

/// Where the calls of an entity run.
pub(super) enum Place {
    /// On this arbiter.
    Here(Rc<EntityOwner>),
    /// On the arbiter of this node.
    There(LocalNode),
    /// On a node that begins anew.
    Soon,
    /// No node runs in this process.
    Nowhere,
}

impl Place {
    /// Where the calls of this entity run: where it is, or else here if there is a node.
    pub(super) fn of(shared: &Arc<DurableShared>, name: &EntityName) -> Self {
        let here = HERE.with_borrow(|owners| {
            let mut owners = owners.iter().filter_map(Weak::upgrade);
            owners.find(|owner| Arc::ptr_eq(&owner.shared, shared) && !owner.is_ending.get())
        });
        let known = shared.entities.known.get(&name.full).map(|known| known.node);
        match (here, known) {
            (Some(owner), None) => return Self::Here(owner),
            (Some(owner), Some(number)) if owner.number == number => return Self::Here(owner),
            (_, Some(number)) if let Some(node) = shared.node_of_number(number) => {
                return Self::There(node);
            }
            (Some(owner), Some(_)) => return Self::Here(owner),
            (None, _) => {}
        }
        let is_soon = shared.entities.nodes.load(Ordering::Relaxed) > 0;
        let nowhere = if is_soon { Self::Soon } else { Self::Nowhere };
        shared.next_node().map_or(nowhere, Self::There)
    }
}

/// The entities of a node.
pub(crate) struct EntityOwner {
    pub(super) shared: Arc<DurableShared>,
    /// The number of the node in this process.
    pub(crate) number: u64,
    pub(super) lease: CurrentLease,
    entities: RefCell<HashMap<Arc<str>, Owning>>,
    /// Those that it owns, in the order in which it gives all back.
    owned: RefCell<BTreeMap<Uid, Rc<OwnedEntity>>>,
    is_ending: Cell<bool>,
    /// When it looked for idle ones.
    looked: Cell<Time>,
    /// An entity was claimed, or is gone.
    changed: Notify,
}

#[derive(Clone)]
enum Owning {
    /// It is claimed, and its owner with this epoch was asked for it.
    Claims(Option<(Uid, Epoch)>),
    Owns(Rc<OwnedEntity>),
}

impl EntityOwner {
    /// The entities of the node with this number, which runs on this arbiter.
    pub(crate) fn start(shared: &Arc<DurableShared>, number: u64, lease: CurrentLease) -> Rc<Self> {
        let owner = Rc::new(Self {
            shared: Arc::clone(shared),
            number,
            lease,
            entities: RefCell::default(),
            owned: RefCell::default(),
            is_ending: Cell::new(false),
            looked: Cell::new(clock::now()),
            changed: Notify::new(),
        });
        shared.entities.nodes.fetch_add(1, Ordering::Relaxed);
        HERE.with_borrow_mut(|owners| {
            owners.retain(|other| other.strong_count() > 0);
            owners.push(Rc::downgrade(&owner));
        });
        owner
    }

    /// The entity, if this node owns it already.
    pub(super) fn known(&self, name: &EntityName) -> Option<Rc<OwnedEntity>> {
        match self.entities.borrow().get(&name.full) {
            Some(Owning::Owns(it)) if !it.is_leaving.get() && it.owned.is_valid() => {
                Some(Rc::clone(it))
            }
            Some(Owning::Owns(_) | Owning::Claims(_)) | None => None,
        }
    }

    /// The entity, as soon as this node owns it. One that was never called is made if the call may change it, and is
    /// `None` for a call that reads: so who reads many keys leaves nothing behind. The error is [`MOVED`] if another node
    /// of this process owns it.
    pub(super) async fn owned(
        self: Rc<Self>,
        (kind, name, form): (Arc<EntityKind>, EntityName, CallForm),
        away: Weak<Option<AwayWait>>,
    ) -> Result<Option<Rc<OwnedEntity>>, Error> {
        let mut sent = None;
        loop {
            let changed = self.changed.notified();
            let owning = self.entities.borrow().get(&name.full).cloned();
            match owning {
                Some(Owning::Owns(entity)) if entity.is_leaving.get() => {
                    entity.left().await;
                    if entity.is_wanted.get() {
                        timer::sleep_until(clock::now() + LETS_OTHERS).await;
                    }
                }
                Some(Owning::Owns(entity)) if entity.owned.is_valid() => return Ok(Some(entity)),
                Some(Owning::Owns(entity)) if entity.is_in_doubt() => entity.settled().await,
                Some(Owning::Owns(entity)) => {
                    entity.lose();
                    self.forget(&entity);
                }
                Some(Owning::Claims(asked)) => {
                    // another call claims it, which may have ended since
                    if let Some((uid, _)) =
                        asked.filter(|asked| sent.replace(*asked) != Some(*asked))
                        && let Some(path) = self.path_to(uid, &away)
                    {
                        send(&self.shared.journal, uid, path);
                    }
                    changed.await;
                }
                None => {
                    self.begin_claim(&name)?;
                    let asked = (Arc::clone(&kind), name.clone(), form);
                    let claims = Rc::clone(&self).claims(asked, Weak::clone(&away));
                    // one that is claimed is kept, whoever waits for it
                    if !detached(claims).await? {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// No other node of this process claims the entity meanwhile.
    fn begin_claim(&self, name: &EntityName) -> Result<(), Error> {
        if self.is_ending.get() {
            return Err(Error::new(MOVED));
        }
        let mut entities = self.entities.borrow_mut();
        if entities.len() >= MOST {
            let info = format!("{MOST} entities are in use here already");
            return Err(Error::with_info(codes::DEFENSE_REJECTED, info));
        }
        match self.shared.entities.known.entry(Arc::clone(&name.full)) {
            Entry::Occupied(other) if other.get().node != self.number => Err(Error::new(MOVED)),
            entry @ (Entry::Occupied(_) | Entry::Vacant(_)) => {
                entry.insert(KnownEntity { node: self.number, figures: None });
                entities.insert(Arc::clone(&name.full), Owning::Claims(None));
                Ok(())
            }
        }
    }

    /// The owner of the entity was asked for it.
    pub(super) fn has_asked(&self, name: &EntityName, owner: (Uid, Epoch)) {
        let claims = Owning::Claims(Some(owner));
        self.entities.borrow_mut().insert(Arc::clone(&name.full), claims);
        self.changed.notify_waiters();
    }

    /// Claims the entity; returns whether it is there.
    async fn claims(
        self: Rc<Self>,
        (kind, name, form): (Arc<EntityKind>, EntityName, CallForm),
        away: Weak<Option<AwayWait>>,
    ) -> Result<bool, Error> {
        let _ended = on_drop(|| self.ends_claim(&name.full));
        let Some(taken) = self.claim(&kind, &name, form, &away).await? else { return Ok(false) };
        let entity = self.load(&kind, &name, taken).await?;
        let owns = Owning::Owns(Rc::clone(&entity));
        self.owned.borrow_mut().insert(entity.owned.uid(), Rc::clone(&entity));
        self.entities.borrow_mut().insert(Arc::clone(&name.full), owns);
        let figures = Some(Arc::clone(&entity.figures));
        let known = KnownEntity { node: self.number, figures };
        self.shared.entities.known.insert(Arc::clone(&name.full), known);
        self.changed.notify_waiters();
        if self.is_ending.get() {
            self.leave(&entity);
        }
        Ok(true)
    }

    /// The end of a claim, also of one that is dropped with its arbiter: if it has failed, the node claims the entity no more.
    fn ends_claim(&self, name: &str) {
        let mut entities = self.entities.borrow_mut();
        if matches!(entities.get(name), Some(Owning::Claims(_))) {
            entities.remove(name);
            self.shared.entities.given(name, self.number);
            drop(entities);
            self.changed.notify_waiters();
        }
    }

    /// The node does not own the entity any more.
    fn forget(&self, entity: &Rc<OwnedEntity>) {
        let mut entities = self.entities.borrow_mut();
        let is_it = matches!(entities.get(&entity.name.full), Some(Owning::Owns(known)) if Rc::ptr_eq(known, entity));
        if is_it {
            entities.remove(&entity.name.full);
            self.owned.borrow_mut().remove(&entity.owned.uid());
            self.shared.entities.given(&entity.name.full, self.number);
        }
        drop(entities);
        entity.forgotten();
        self.changed.notify_waiters();
    }

    /// Gives an entity back when no call is in it.
    fn leave(self: &Rc<Self>, entity: &Rc<OwnedEntity>) {
        if entity.begin_leaving() {
            let (owner, entity) = (Rc::clone(self), Rc::clone(entity));
            actix_rt::spawn(async move {
                entity.release().await;
                owner.forget(&entity);
            });
        }
    }

    /// Another node asks for an entity, or sends it something.
    pub(crate) fn hears(self: &Rc<Self>, news: News) {
        let owned = self.owned.borrow().get(&news.uid).cloned();
        if let Some(entity) = owned {
            entity.wanted(news.inbox);
            self.leave(&entity);
            if entity.is_in_use() && entity.followed.get() < news.inbox {
                actix_rt::spawn(Rc::clone(self).follow(entity));
            }
        }
    }

    /// Another node waits for an entity: what the call in it waits for may be what that node has.
    async fn follow(self: Rc<Self>, entity: Rc<OwnedEntity>) {
        let Ok(inbox) = self.shared.journal.inbox(entity.owned.uid()).await else { return };
        let followed = entity.followed.replace(inbox.last);
        let turn = self.shared.entities.turns.key(&entity.name.full);
        for asked in inbox.signals.iter().filter(|asked| asked.number > followed) {
            if let Ok((_, Some(path))) = asked.value.decode::<Asks>()
                && entity.is_in_use()
            {
                turn.pass_on(&path);
            }
        }
    }

    fn all(&self) -> Vec<Rc<OwnedEntity>> {
        self.owned.borrow().values().cloned().collect()
    }

    /// Gives those back that were not called for long, and of more than [`ROOM`] those that were not called for longest. It
    /// looks at them now and then, however often it is called.
    pub(crate) fn leave_idle(self: &Rc<Self>) {
        let now = clock::now();
        if now < self.looked.get() + SHORT {
            return;
        }
        self.looked.set(now);
        let all = self.all();
        let surplus = all.len().saturating_sub(ROOM);
        let mut idle: Vec<_> = all.iter().filter_map(|it| Some((it.idle_since()?, it))).collect();
        if surplus < idle.len() {
            // those before it were not called for longer
            idle.select_nth_unstable_by_key(surplus, |(since, _)| *since);
        }
        for (place, (since, entity)) in idle.into_iter().enumerate() {
            let since = now.saturating_since(since);
            if since >= IDLE || (place < surplus && since >= SHORT) {
                self.leave(entity);
            } else if since >= SHORT {
                entity.rest();
            }
        }
    }

    /// Gives all back, such as when the lease has ended.
    pub(crate) fn leave_all(self: &Rc<Self>) {
        self.all().iter().for_each(|entity| self.leave(entity));
    }

    /// The node stops: it takes no more, and gives all back.
    pub(crate) fn end(self: &Rc<Self>) {
        self.is_ending.set(true);
        self.leave_all();
    }

    /// The node ends as by a crash.
    pub(crate) fn crash(&self) {
        self.is_ending.set(true);
        for entity in self.all() {
            entity.lose();
            self.forget(&entity);
        }
    }

    /// Whether it has none.
    pub(crate) fn is_without(&self) -> bool {
        self.entities.borrow().is_empty()
    }

    /// Completes when it has none.
    pub(crate) async fn is_empty(&self) {
        until(&self.changed, || self.is_without().then_some(())).await;
    }
}

impl Drop for EntityOwner {
    fn drop(&mut self) {
        self.shared.entities.nodes.fetch_sub(1, Ordering::Relaxed);
    }
}
