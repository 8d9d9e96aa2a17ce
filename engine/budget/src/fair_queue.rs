//! The accounting of a budget, without threads and time.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt as _};

use super::client::Client;
use super::holdings::Holdings;
use super::limits::{Limits, Usage};
use super::signal::HoldingSignal;

/// Why a [`Budget`](super::Budget) refuses a request, or memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BudgetRefusal {
    /// There is neither a permit nor a place in the queue, or another client has displaced the request from it.
    #[error("Too many requests")]
    TooMany,
    /// There is no memory, or others have displaced the holding.
    #[error("Too much memory")]
    Memory,
}

/// The decision about a request.
#[derive(Debug)]
pub(super) enum AdmissionDecision {
    Admitted,
    Waits(BudgetTicket),
    Refused(BudgetRefusal),
}

/// Names a request in the queue of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BudgetTicket {
    client: Client,
    number: u64,
}

/// Admits requests up to the limits; `W` takes the permit of a request that waits.
///
/// Each client has its own queue, and the queues take turns. Clients with half of the permits or more
/// are passed over while others wait. A request waits only while all permits are taken, or all that its
/// client may have.
#[derive(Debug)]
pub(super) struct FairQueue<W> {
    limits: Limits,
    /// Permits that one client may have.
    of_client: usize,
    /// Permits that each client has.
    inside: HashMap<Client, usize>,
    /// Permits of [`Client::Unknown`], such as calls in the process: apart, because they are most.
    inside_unknown: usize,
    queues: HashMap<Client, ClientQueue<W>>,
    /// The clients that wait, in the order of their turns.
    turns: BTreeMap<u64, Client>,
    /// The same clients by the length of their queues, each with its turn.
    lengths: BTreeSet<(usize, u64)>,
    /// Numbers turns and tickets.
    last: u64,
    usage: Usage,
    holdings: Holdings<Arc<HoldingSignal>>,
    /// Holdings that were displaced, whose owners are not notified yet.
    displaced: Vec<(usize, Arc<HoldingSignal>)>,
}

#[derive(Debug)]
struct ClientQueue<W> {
    turn: u64,
    /// By ticket, the oldest first.
    waiting: BTreeMap<u64, QueuedRequest<W>>,
}

#[derive(Debug)]
struct QueuedRequest<W> {
    bytes: usize,
    waiter: W,
}

impl<W> FairQueue<W> {
    pub(super) fn new(limits: Limits, of_client: usize) -> Self {
        Self {
            limits,
            of_client,
            inside: HashMap::new(),
            inside_unknown: 0,
            queues: HashMap::new(),
            turns: BTreeMap::new(),
            lengths: BTreeSet::new(),
            last: 0,
            usage: Usage::default(),
            holdings: Holdings::new(),
            displaced: Vec::new(),
        }
    }

    pub(super) fn usage(&self) -> Usage {
        Usage { clients: self.queues.len(), ..self.usage }
    }

    /// Whether there is neither a permit nor a place to wait, or no memory.
    pub(super) fn is_full(&self) -> bool {
        let Usage { running, queued, memory, .. } = self.usage;
        let Limits { concurrent, queued: places, memory: bytes } = self.limits;
        running >= concurrent && queued >= places || memory - self.holdings.waiting() >= bytes
    }

    /// Admits a request of a client, or queues it; `waiter` is made if it waits.
    ///
    /// A full budget makes room by displacing the latest request of the longest queue, as long as that
    /// queue stays the longer one. Returns the displaced one.
    pub(super) fn enter(
        &mut self,
        client: &Client,
        bytes: usize,
        waiter: impl FnOnce() -> W,
    ) -> (AdmissionDecision, Option<W>) {
        let is_full = self.usage.running >= self.limits.concurrent
            || self.of_client < usize::MAX && self.inside_of(client) >= self.of_client;
        let refusal = if !self.make_room(bytes) {
            Some(BudgetRefusal::Memory)
        } else if is_full && self.usage.queued >= self.limits.queued {
            Some(BudgetRefusal::TooMany)
        } else {
            None
        };
        let mut displaced = None;
        if let Some(refusal) = refusal {
            displaced = self.displace(client, bytes);
            if displaced.is_none() {
                self.usage.refused += 1;
                return (AdmissionDecision::Refused(refusal), None);
            }
        }
        self.usage.memory += bytes;
        if is_full {
            return (
                AdmissionDecision::Waits(
                    self.push(client, QueuedRequest { bytes, waiter: waiter() }),
                ),
                displaced,
            );
        }
        self.admit(client);
        (AdmissionDecision::Admitted, displaced)
    }

    /// Corrects the estimate of a running request; false if there is no room for it.
    pub(super) fn resize(&mut self, from: usize, to: usize) -> bool {
        let fits = to <= from || self.make_room(to - from);
        if fits {
            self.usage.memory = self.usage.memory - from + to;
        }
        fits
    }

    /// Adds a holding of a client; no bytes so far.
    pub(super) fn hold(&mut self, client: Client, signal: Arc<HoldingSignal>) -> usize {
        self.holdings.insert(client, signal)
    }

    /// Sets the bytes of a holding, and whether it waits for its client; false if there is no room.
    pub(super) fn set_held(&mut self, key: usize, bytes: usize, waits: bool) -> bool {
        let before = self.holdings.open(key);
        let fits = self.resize(before, bytes);
        self.holdings.set(key, if fits { bytes } else { before }, waits);
        fits
    }

    /// The same for memory that is taken already: it counts even if there is no room.
    pub(super) fn set_held_taken(&mut self, key: usize, bytes: usize, waits: bool) -> bool {
        let before = self.holdings.open(key);
        if !self.resize(before, bytes) {
            self.usage.memory = self.usage.memory - before + bytes;
        }
        self.holdings.set(key, bytes, waits);
        true
    }

    /// Releases the bytes of a holding.
    pub(super) fn release(&mut self, key: usize) {
        let (bytes, _) = self.holdings.remove(key);
        self.usage.memory -= bytes;
    }

    pub(super) fn take_displaced(&mut self) -> Vec<(usize, Arc<HoldingSignal>)> {
        mem::take(&mut self.displaced)
    }

    /// Whether there is room for more bytes. It is made by displacing holdings if that is enough; then a
    /// little more than is needed, so that it is not done for each request.
    fn make_room(&mut self, bytes: usize) -> bool {
        let Usage { memory, .. } = self.usage;
        let most = self.limits.memory;
        if memory.saturating_add(bytes) <= most {
            return true;
        }
        if (memory - self.holdings.waiting()).saturating_add(bytes) > most {
            return false;
        }
        while (self.usage.memory + bytes).saturating_add(most / 64) > most
            && let Some((bytes, signal)) = self.holdings.displace()
        {
            self.usage.memory -= bytes;
            signal.displace();
            self.displaced.push((bytes, signal));
        }
        true
    }

    /// A request of a client ended; returns the one that is admitted instead, with its client and
    /// bytes.
    pub(super) fn leave(&mut self, client: &Client, bytes: usize) -> Option<(W, Client, usize)> {
        self.usage.running -= 1;
        self.usage.memory -= bytes;
        if *client == Client::Unknown {
            self.inside_unknown -= 1;
        } else if let Entry::Occupied(mut inside) = self.inside.entry(client.clone()) {
            *inside.get_mut() -= 1;
            if *inside.get() == 0 {
                inside.remove();
            }
        }
        if self.turns.is_empty() {
            return None;
        }
        let client = self.next_client()?.clone();
        let number = *self.queues.get(&client)?.waiting.first_key_value()?.0;
        let next = self.remove(&client, number, ClientTurn::Next)?;
        self.admit(&client);
        Some((next.waiter, client, next.bytes))
    }

    /// The client whose turn it is. At most two clients have half of the permits, and few have all that
    /// they may have, so this passes over few.
    fn next_client(&self) -> Option<&Client> {
        let half = self.limits.concurrent.div_ceil(2);
        let with_less = |most: usize| {
            self.turns.values().find(|client| self.inside_of(client) < most.min(self.of_client))
        };
        with_less(half).or_else(|| with_less(usize::MAX))
    }

    fn inside_of(&self, client: &Client) -> usize {
        match client {
            Client::Unknown => self.inside_unknown,
            Client::Network(_) | Client::Named(_) => self.inside.get(client).copied().unwrap_or(0),
        }
    }

    fn admit(&mut self, client: &Client) {
        self.usage.running += 1;
        self.usage.admitted += 1;
        match client {
            Client::Unknown => self.inside_unknown += 1,
            Client::Network(_) | Client::Named(_) => {
                *self.inside.entry(client.clone()).or_default() += 1;
            }
        }
    }

    /// Takes a request out of its queue; `None` if it was admitted or displaced before.
    pub(super) fn withdraw(&mut self, ticket: &BudgetTicket) -> Option<W> {
        let waiting = self.remove(&ticket.client, ticket.number, ClientTurn::Stays)?;
        self.usage.memory -= waiting.bytes;
        self.usage.withdrawn += 1;
        Some(waiting.waiter)
    }

    /// Displaces the latest request of the longest queue, if that makes room for `client` in a shorter
    /// one.
    fn displace(&mut self, client: &Client, bytes: usize) -> Option<W> {
        let (length, turn) = *self.lengths.last()?;
        let own = self.queues.get(client).map_or(0, |queue| queue.waiting.len());
        if length <= own + 1 {
            return None;
        }
        let longest = self.turns.get(&turn)?.clone();
        let (number, latest) = self.queues.get(&longest)?.waiting.last_key_value()?;
        let memory = self.usage.memory - latest.bytes;
        if memory.saturating_add(bytes) > self.limits.memory {
            return None;
        }
        let number = *number;
        let latest = self.remove(&longest, number, ClientTurn::Stays)?;
        self.usage.memory = memory;
        self.usage.refused += 1;
        Some(latest.waiter)
    }

    fn next_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn push(&mut self, client: &Client, waiting: QueuedRequest<W>) -> BudgetTicket {
        let number = self.next_number();
        self.usage.queued += 1;
        let turns = &mut self.turns;
        let queue = self.queues.entry(client.clone()).or_insert_with(|| {
            turns.insert(number, client.clone());
            ClientQueue { turn: number, waiting: BTreeMap::new() }
        });
        self.lengths.remove(&(queue.waiting.len(), queue.turn));
        queue.waiting.insert(number, waiting);
        self.lengths.insert((queue.waiting.len(), queue.turn));
        BudgetTicket { client: client.clone(), number }
    }

    fn remove(
        &mut self,
        client: &Client,
        number: u64,
        turn: ClientTurn,
    ) -> Option<QueuedRequest<W>> {
        let after = self.last + 1;
        let queue = self.queues.get_mut(client)?;
        let length = queue.waiting.len();
        let removed = queue.waiting.remove(&number)?;
        self.usage.queued -= 1;
        self.lengths.remove(&(length, queue.turn));
        if length == 1 {
            self.turns.remove(&queue.turn);
            self.queues.remove(client);
            return Some(removed);
        }
        if let ClientTurn::Next = turn
            && let Some(client) = self.turns.remove(&queue.turn)
        {
            (self.last, queue.turn) = (after, after);
            self.turns.insert(after, client);
        }
        self.lengths.insert((length - 1, queue.turn));
        Some(removed)
    }
}

/// Whether a client had its turn.
enum ClientTurn {
    Next,
    Stays,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(concurrent: usize, queued: usize, memory: usize) -> Limits {
        Limits { concurrent, queued, memory }
    }

    fn client(name: &str) -> Client {
        Client::from(name)
    }

    /// Enters with one byte; returns the ticket if it waits.
    fn enter(queue: &mut FairQueue<String>, name: &str, waiter: &str) -> Option<BudgetTicket> {
        match queue.enter(&client(name), 1, || waiter.to_owned()) {
            (AdmissionDecision::Waits(ticket), _) => Some(ticket),
            (AdmissionDecision::Admitted | AdmissionDecision::Refused(_), _) => None,
        }
    }

    /// Admits all requests, one after the other.
    fn drain(queue: &mut FairQueue<String>) -> Vec<String> {
        let mut inside: Vec<Client> = queue.inside.keys().cloned().collect();
        std::iter::from_fn(|| {
            let (waiter, client, _) = queue.leave(&inside.pop()?, 1)?;
            inside.push(client);
            Some(waiter)
        })
        .collect()
    }

    /// Nothing is left.
    fn assert_empty<W>(queue: &FairQueue<W>) {
        let usage = queue.usage();
        assert_eq!((usage.running, usage.queued, usage.memory, usage.clients), (0, 0, 0, 0));
        assert!(queue.turns.is_empty() && queue.lengths.is_empty() && queue.inside.is_empty());
        assert_eq!(queue.inside_unknown, 0);
    }

    #[test]
    fn the_limits_are_exact() {
        let mut queue = FairQueue::new(limits(2, 3, 100), usize::MAX);
        let outcomes: String = (0..6)
            .map(|_| match queue.enter(&Client::Unknown, 10, || ()).0 {
                AdmissionDecision::Admitted => 'i',
                AdmissionDecision::Waits(_) => 'w',
                AdmissionDecision::Refused(BudgetRefusal::TooMany) => 'r',
                AdmissionDecision::Refused(BudgetRefusal::Memory) => 'm',
            })
            .collect();
        assert_eq!(outcomes, "iiwwwr");
        let usage = queue.usage();
        assert_eq!((usage.running, usage.queued, usage.memory), (2, 3, 50));
        assert_eq!((usage.admitted, usage.refused), (2, 1));
        let next = Some(((), Client::Unknown, 10));
        for left in [next.clone(), next.clone(), next, None, None] {
            assert_eq!(queue.leave(&Client::Unknown, 10), left);
        }
        assert_empty(&queue);
        assert_eq!(queue.usage().admitted, 5);
    }

    #[test]
    fn memory_counts_those_inside_and_those_that_wait() {
        let mut queue = FairQueue::new(limits(1, 10, 100), usize::MAX);
        let mut enter = |bytes| queue.enter(&Client::Unknown, bytes, || ()).0;
        assert!(matches!(enter(101), AdmissionDecision::Refused(BudgetRefusal::Memory)));
        assert!(matches!(enter(60), AdmissionDecision::Admitted));
        assert!(matches!(enter(40), AdmissionDecision::Waits(_)));
        assert!(matches!(enter(1), AdmissionDecision::Refused(BudgetRefusal::Memory)));
        assert!(matches!(enter(0), AdmissionDecision::Waits(_)));
        assert_eq!(queue.leave(&Client::Unknown, 60), Some(((), Client::Unknown, 40)));
        assert_eq!(queue.usage().memory, 40);
        // a running request may turn out to be larger
        assert!(queue.resize(40, 90) && !queue.resize(90, 101) && queue.resize(90, 30));
        assert_eq!(queue.usage().memory, 30);
    }

    #[test]
    fn what_waits_for_clients_makes_room_for_requests() {
        let mut queue = FairQueue::new(limits(10, 10, 100), usize::MAX);
        let hold = |queue: &mut FairQueue<()>, bytes, waits| {
            let signal = Arc::<HoldingSignal>::default();
            let key = queue.hold(client("eve"), Arc::clone(&signal));
            queue.set_held(key, bytes, waits).then_some((key, signal))
        };
        let enter = |queue: &mut FairQueue<()>, bytes| {
            matches!(queue.enter(&client("ann"), bytes, || ()).0, AdmissionDecision::Admitted)
        };
        let (_, first) = hold(&mut queue, 30, true).expect("there is room");
        let (at_work, second) = hold(&mut queue, 30, false).expect("there is room");
        assert!(hold(&mut queue, 71, true).is_none(), "displacing is not enough");
        assert!(enter(&mut queue, 40) && !queue.is_full());
        assert!(enter(&mut queue, 20) && first.is_displaced());
        assert_eq!((queue.usage().memory, queue.take_displaced().len()), (90, 1));
        assert!(!enter(&mut queue, 20) && !second.is_displaced());
        queue.release(at_work);
        assert_eq!(queue.leave(&client("ann"), 40), None);
        assert_eq!(queue.leave(&client("ann"), 20), None);
        assert_empty(&queue);
    }

    #[test]
    fn clients_take_turns_whatever_the_length_of_their_queues() {
        let mut queue = FairQueue::new(limits(1, 100, 100), usize::MAX);
        enter(&mut queue, "flood", "first");
        for n in 0..6 {
            enter(&mut queue, "flood", &format!("f{n}"));
        }
        for waiter in ["a0", "b0", "a1"] {
            enter(&mut queue, &waiter[..1], waiter);
        }
        assert_eq!(queue.usage().clients, 3);
        assert_eq!(drain(&mut queue), ["f0", "a0", "b0", "f1", "a1", "f2", "f3", "f4", "f5"]);
        assert_empty(&queue);
    }

    #[test]
    fn a_client_with_half_of_the_permits_gets_no_more_while_others_wait() {
        let mut queue = FairQueue::new(limits(4, 100, 100), usize::MAX);
        for n in 0..8 {
            enter(&mut queue, "flood", &format!("f{n}"));
        }
        assert_eq!(queue.usage().running, 4, "all, while no other client is there");
        for n in 0..4 {
            enter(&mut queue, "ann", &format!("a{n}"));
        }
        let mut next =
            |waiter| queue.leave(&client(waiter), 1).map(|(waiter, ..)| waiter).unwrap_or_default();
        assert_eq!([(); 2].map(|()| next("flood")), ["a0", "a1"]);
        // both have half: they take turns
        assert_eq!([(); 2].map(|()| next("flood")), ["f4", "f5"]);
        assert_eq!([(); 2].map(|()| next("ann")), ["a2", "a3"]);
        // and all that others do not want
        assert_eq!([(); 2].map(|()| next("ann")), ["f6", "f7"]);
        let inside = [queue.inside_of(&client("flood")), queue.inside_of(&client("ann"))];
        assert_eq!(inside, [4, 0]);
    }

    #[test]
    fn a_client_has_no_more_permits_than_it_may_have() {
        let mut queue = FairQueue::new(limits(4, 100, 100), 2);
        for n in 0..3 {
            enter(&mut queue, "flood", &format!("f{n}"));
        }
        assert_eq!((queue.usage().running, queue.usage().queued), (2, 1));
        assert_eq!(enter(&mut queue, "ann", "a"), None, "there is room");
        assert_eq!(queue.usage().running, 3);
        assert_eq!(queue.leave(&client("ann"), 1), None);
        assert!(queue.leave(&client("flood"), 1).is_some_and(|(waiter, ..)| waiter == "f2"));
    }

    #[test]
    fn a_full_queue_has_room_for_others_than_the_client_that_filled_it() {
        let mut queue = FairQueue::new(limits(1, 4, 100), usize::MAX);
        enter(&mut queue, "flood", "inside");
        for n in 0..4 {
            enter(&mut queue, "flood", &format!("f{n}"));
        }
        assert_eq!(enter(&mut queue, "flood", "more"), None, "not for the client that filled it");
        for (name, displaced) in [("a", "f3"), ("b", "f2")] {
            let (entered, gone) = queue.enter(&client(name), 1, || name.to_owned());
            assert!(matches!(entered, AdmissionDecision::Waits(_)));
            assert_eq!(gone.as_deref(), Some(displaced));
        }
        assert!(enter(&mut queue, "c", "c").is_some(), "two to one");
        assert_eq!(enter(&mut queue, "d", "d"), None, "all queues are as short");
        assert_eq!(queue.usage().refused, 5);
        assert_eq!(drain(&mut queue), ["f0", "a", "b", "c"]);
        assert_empty(&queue);
    }

    #[test]
    fn no_request_is_displaced_in_vain() {
        let mut queue = FairQueue::new(limits(1, 10, 10), usize::MAX);
        for bytes in [2, 4, 2, 2] {
            queue.enter(&client("flood"), bytes, || "flood".to_owned());
        }
        let mut late = |bytes| queue.enter(&client("late"), bytes, || "late".to_owned());
        assert!(matches!(late(3), (AdmissionDecision::Refused(BudgetRefusal::Memory), None)));
        assert!(matches!(late(2), (AdmissionDecision::Waits(_), Some(_))));
        assert_eq!(queue.usage().memory, 10);
    }

    #[test]
    fn a_request_that_is_withdrawn_leaves_nothing_behind() {
        let mut queue = FairQueue::new(limits(1, 100, 1000), usize::MAX);
        enter(&mut queue, "a", "inside");
        let mut tickets: Vec<BudgetTicket> = (0..50)
            .filter_map(|n| enter(&mut queue, &format!("client {}", n % 7), &n.to_string()))
            .collect();
        let kept = tickets.swap_remove(20);
        for ticket in &tickets {
            assert!(queue.withdraw(ticket).is_some());
            assert_eq!(queue.withdraw(ticket), None, "once");
        }
        let usage = queue.usage();
        assert_eq!((usage.queued, usage.clients, usage.withdrawn), (1, 1, 49));
        assert_eq!(drain(&mut queue), ["20"]);
        assert_eq!(queue.withdraw(&kept), None, "it is in");
        assert_empty(&queue);
    }
}
