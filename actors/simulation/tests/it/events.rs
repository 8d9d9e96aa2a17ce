//! Readers of what orders emit, on all nodes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use asyncsteps_durable::journal::Uid;
use asyncsteps_durable::{Durable, EmittedEvent};
use futures_util::StreamExt;

use crate::world::World;

/// How many readers a node has.
const READERS: usize = 3;

/// What an order emits: the place of the step among those of the order, and its key.
pub(crate) type Said = (u32, String);

/// What readers have of each order, and what the orders say that they have emitted. Cloning shares.
#[derive(Clone, Default)]
pub(crate) struct Readers(Arc<Mutex<Read>>);

#[derive(Default)]
struct Read {
    /// The orders that nothing reads now, and whose end was not read.
    waiting: VecDeque<Uid>,
    read: BTreeMap<Uid, Vec<Said>>,
    emitted: Vec<Said>,
    wrong: Option<String>,
}

/// A reader of an order, until it is dropped: then another one goes on behind what it has read.
struct Turn {
    readers: Readers,
    uid: Uid,
    has_ended: bool,
}

impl Readers {
    fn lock(&self) -> MutexGuard<'_, Read> {
        self.0.lock().expect("no panic")
    }

    /// The events of an order are to be read.
    pub(crate) fn add(&self, uid: Uid) {
        self.lock().waiting.push_back(uid);
    }

    /// A body has emitted this.
    pub(crate) fn emitted(&self, said: Said) {
        self.lock().emitted.push(said);
    }

    /// Reads on a node, some of each order.
    pub(crate) fn start(&self, world: &World, durable: &Durable) {
        for _ in 0..READERS {
            actix_rt::spawn(self.clone().read(world.clone(), durable.clone()));
        }
    }

    async fn read(self, world: World, durable: Durable) {
        loop {
            let uid = self.lock().waiting.pop_front();
            let Some(uid) = uid else {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let mut turn = Turn { readers: self.clone(), uid, has_ended: false };
            let after = self.lock().read.entry(uid).or_default().len() as u64;
            let mut events = pin!(durable.events::<Said>(uid, after));
            let mut until = pin!(tokio::time::sleep(world.pause()));
            loop {
                let event = tokio::select! {
                    event = events.next() => event,
                    () = &mut until => break,
                };
                match event {
                    Some(Ok(event)) => turn.take(event),
                    // the journal is away
                    Some(Err(_)) => break,
                    None => {
                        turn.has_ended = true;
                        break;
                    }
                }
            }
        }
    }

    /// All is read to its end: what was emitted, once, in the order of the steps.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Read { waiting, read, emitted, wrong } = &*self.lock();
        if let Some(wrong) = wrong {
            return Err(wrong.clone());
        }
        if let Some(uid) = waiting.front() {
            return Err(format!("the events of {uid} have no end: {:?}", read.get(uid)));
        }
        // one that a node has stored when it died is known to nobody, and runs elsewhere
        let known: BTreeSet<_> = read.keys().map(Uid::to_string).collect();
        let is_known = |(_, key): &Said| key.split('-').next().is_some_and(|it| known.contains(it));
        let read: BTreeSet<_> = read.values().flatten().collect();
        match emitted.iter().find(|said| is_known(said) && !read.contains(said)) {
            Some(lost) => Err(format!("{lost:?} was emitted, and not read")),
            None => Ok(()),
        }
    }
}

impl Turn {
    fn take(&self, EmittedEvent { number, event, .. }: EmittedEvent<Said>) {
        let Read { read, wrong, .. } = &mut *self.readers.lock();
        let before = read.entry(self.uid).or_default();
        let is_next = number == before.len() as u64 + 1 && !before.contains(&event);
        if !is_next || before.last().is_some_and(|(place, _)| *place > event.0) {
            let uid = self.uid;
            wrong.get_or_insert(format!("{uid} emits {number} {event:?} behind {before:?}"));
        }
        before.push(event);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.has_ended {
            self.readers.add(self.uid);
        }
    }
}
