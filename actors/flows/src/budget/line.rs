//! Who is in and who waits: pure accounting, without threads and time.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Client, Limits, Usage};

/// Why somebody is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    TooMany,
    Memory,
}

/// What became of an attempt to enter.
#[derive(Debug)]
pub(super) enum Entered {
    In,
    Waits(Ticket),
    Refused(Refusal),
}

/// A place in the line of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    client: Client,
    number: u64,
}

/// Lets clients in up to the limits; `W` stands for somebody who waits.
///
/// Each client has a line of its own, and the lines take turns. Clients with half of the places or
/// more are passed over while others wait. A client waits only while all places inside are taken, or
/// all that it may have.
#[derive(Debug)]
pub(super) struct Lines<W> {
    limits: Limits,
    /// How many of those inside may be of one client.
    of_client: usize,
    /// How many of those inside are of a client.
    inside: HashMap<Client, usize>,
    lines: HashMap<Client, Line<W>>,
    /// The clients that wait, in the order of their turns.
    turns: BTreeMap<u64, Client>,
    /// The same clients by the length of their lines, each with its turn.
    lengths: BTreeSet<(usize, u64)>,
    /// Numbers turns and tickets.
    last: u64,
    usage: Usage,
}

#[derive(Debug)]
struct Line<W> {
    turn: u64,
    /// By ticket, the oldest first.
    waiting: BTreeMap<u64, Waiting<W>>,
}

#[derive(Debug)]
struct Waiting<W> {
    bytes: usize,
    who: W,
}

impl<W> Lines<W> {
    pub(super) fn new(limits: Limits, of_client: usize) -> Self {
        Self {
            limits,
            of_client,
            inside: HashMap::new(),
            lines: HashMap::new(),
            turns: BTreeMap::new(),
            lengths: BTreeSet::new(),
            last: 0,
            usage: Usage::default(),
        }
    }

    pub(super) fn usage(&self) -> Usage {
        Usage { clients: self.lines.len(), ..self.usage }
    }

    /// Lets a client in, or has it wait; `who` is made if it waits.
    ///
    /// A full budget makes room for a client by refusing the latest of the longest line, as long as
    /// that line stays the longer one. Gives who was refused for it.
    pub(super) fn enter(
        &mut self,
        client: &Client,
        bytes: usize,
        who: impl FnOnce() -> W,
    ) -> (Entered, Option<W>) {
        let is_full = self.usage.running >= self.limits.concurrent
            || self.inside_of(client) >= self.of_client;
        let memory = self.usage.memory.saturating_add(bytes);
        let refusal = if memory > self.limits.memory {
            Some(Refusal::Memory)
        } else if is_full && self.usage.queued >= self.limits.queued {
            Some(Refusal::TooMany)
        } else {
            None
        };
        let mut displaced = None;
        if let Some(refusal) = refusal {
            displaced = self.displace(client, bytes);
            if displaced.is_none() {
                self.usage.refused += 1;
                return (Entered::Refused(refusal), None);
            }
        }
        self.usage.memory += bytes;
        if is_full {
            return (Entered::Waits(self.push(client, Waiting { bytes, who: who() })), displaced);
        }
        self.let_in(client);
        (Entered::In, displaced)
    }

    /// Somebody inside takes other bytes than was told; false if there is no room for them.
    pub(super) fn resize(&mut self, from: usize, to: usize) -> bool {
        let memory = (self.usage.memory - from).saturating_add(to);
        let fits = to <= from || memory <= self.limits.memory;
        if fits {
            self.usage.memory = memory;
        }
        fits
    }

    /// A client left with so many bytes; gives what is let in instead: who waits for it, whose it is,
    /// and how many bytes it has.
    pub(super) fn leave(&mut self, client: &Client, bytes: usize) -> Option<(W, Client, usize)> {
        self.usage.running -= 1;
        self.usage.memory -= bytes;
        if let Some(inside) = self.inside.get_mut(client) {
            *inside -= 1;
            if *inside == 0 {
                self.inside.remove(client);
            }
        }
        let client = self.next_client()?.clone();
        let number = *self.lines.get(&client)?.waiting.first_key_value()?.0;
        let next = self.remove(&client, number, Turn::Next)?;
        self.let_in(&client);
        Some((next.who, client, next.bytes))
    }

    /// Whose turn it is. At most two clients have half of the places, and few have all that they may
    /// have, so this passes over few.
    fn next_client(&self) -> Option<&Client> {
        let half = self.limits.concurrent.div_ceil(2);
        let with_less = |most: usize| {
            self.turns.values().find(|client| self.inside_of(client) < most.min(self.of_client))
        };
        with_less(half).or_else(|| with_less(usize::MAX))
    }

    fn inside_of(&self, client: &Client) -> usize {
        self.inside.get(client).copied().unwrap_or(0)
    }

    fn let_in(&mut self, client: &Client) {
        self.usage.running += 1;
        self.usage.admitted += 1;
        match self.inside.get_mut(client) {
            Some(inside) => *inside += 1,
            None => drop(self.inside.insert(client.clone(), 1)),
        }
    }

    /// Takes somebody out of the line; `None` if it was let in or refused before.
    pub(super) fn withdraw(&mut self, ticket: &Ticket) -> Option<W> {
        let waiting = self.remove(&ticket.client, ticket.number, Turn::Stays)?;
        self.usage.memory -= waiting.bytes;
        self.usage.withdrawn += 1;
        Some(waiting.who)
    }

    /// Refuses the latest of the longest line, if that makes room for `client` in a shorter one.
    fn displace(&mut self, client: &Client, bytes: usize) -> Option<W> {
        let (length, turn) = *self.lengths.last()?;
        let own = self.lines.get(client).map_or(0, |line| line.waiting.len());
        if length <= own + 1 {
            return None;
        }
        let longest = self.turns.get(&turn)?.clone();
        let (number, latest) = self.lines.get(&longest)?.waiting.last_key_value()?;
        let memory = self.usage.memory - latest.bytes;
        if memory.saturating_add(bytes) > self.limits.memory {
            return None;
        }
        let number = *number;
        let latest = self.remove(&longest, number, Turn::Stays)?;
        self.usage.memory = memory;
        self.usage.refused += 1;
        Some(latest.who)
    }

    fn next_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn push(&mut self, client: &Client, waiting: Waiting<W>) -> Ticket {
        let number = self.next_number();
        self.usage.queued += 1;
        let turns = &mut self.turns;
        let line = self.lines.entry(client.clone()).or_insert_with(|| {
            turns.insert(number, client.clone());
            Line { turn: number, waiting: BTreeMap::new() }
        });
        self.lengths.remove(&(line.waiting.len(), line.turn));
        line.waiting.insert(number, waiting);
        self.lengths.insert((line.waiting.len(), line.turn));
        Ticket { client: client.clone(), number }
    }

    fn remove(&mut self, client: &Client, number: u64, turn: Turn) -> Option<Waiting<W>> {
        let after = self.last + 1;
        let line = self.lines.get_mut(client)?;
        let length = line.waiting.len();
        let removed = line.waiting.remove(&number)?;
        self.usage.queued -= 1;
        self.lengths.remove(&(length, line.turn));
        if length == 1 {
            self.turns.remove(&line.turn);
            self.lines.remove(client);
            return Some(removed);
        }
        if let Turn::Next = turn
            && let Some(client) = self.turns.remove(&line.turn)
        {
            (self.last, line.turn) = (after, after);
            self.turns.insert(after, client);
        }
        self.lengths.insert((length - 1, line.turn));
        Some(removed)
    }
}

/// Whether a client had its turn.
enum Turn {
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

    /// Enters with one byte; gives the ticket of who waits.
    fn enter(lines: &mut Lines<String>, name: &str, who: &str) -> Option<Ticket> {
        match lines.enter(&client(name), 1, || who.to_owned()) {
            (Entered::Waits(ticket), _) => Some(ticket),
            (Entered::In | Entered::Refused(_), _) => None,
        }
    }

    /// Lets everybody in, one after the other.
    fn drain(lines: &mut Lines<String>) -> Vec<String> {
        let mut inside: Vec<Client> = lines.inside.keys().cloned().collect();
        std::iter::from_fn(|| {
            let (who, client, _) = lines.leave(&inside.pop()?, 1)?;
            inside.push(client);
            Some(who)
        })
        .collect()
    }

    /// Nothing is left of anybody.
    fn assert_empty<W>(lines: &Lines<W>) {
        let usage = lines.usage();
        assert_eq!((usage.running, usage.queued, usage.memory, usage.clients), (0, 0, 0, 0));
        assert!(lines.turns.is_empty() && lines.lengths.is_empty() && lines.inside.is_empty());
    }

    #[test]
    fn the_limits_are_exact() {
        let mut lines = Lines::new(limits(2, 3, 100), usize::MAX);
        let outcomes: String = (0..6)
            .map(|_| match lines.enter(&Client::Unknown, 10, || ()).0 {
                Entered::In => 'i',
                Entered::Waits(_) => 'w',
                Entered::Refused(Refusal::TooMany) => 'r',
                Entered::Refused(Refusal::Memory) => 'm',
            })
            .collect();
        assert_eq!(outcomes, "iiwwwr");
        let usage = lines.usage();
        assert_eq!((usage.running, usage.queued, usage.memory), (2, 3, 50));
        assert_eq!((usage.admitted, usage.refused), (2, 1));
        let next = Some(((), Client::Unknown, 10));
        for left in [next.clone(), next.clone(), next, None, None] {
            assert_eq!(lines.leave(&Client::Unknown, 10), left);
        }
        assert_empty(&lines);
        assert_eq!(lines.usage().admitted, 5);
    }

    #[test]
    fn memory_counts_those_inside_and_those_that_wait() {
        let mut lines = Lines::new(limits(1, 10, 100), usize::MAX);
        let mut enter = |bytes| lines.enter(&Client::Unknown, bytes, || ()).0;
        assert!(matches!(enter(101), Entered::Refused(Refusal::Memory)));
        assert!(matches!(enter(60), Entered::In));
        assert!(matches!(enter(40), Entered::Waits(_)));
        assert!(matches!(enter(1), Entered::Refused(Refusal::Memory)));
        assert!(matches!(enter(0), Entered::Waits(_)));
        assert_eq!(lines.leave(&Client::Unknown, 60), Some(((), Client::Unknown, 40)));
        assert_eq!(lines.usage().memory, 40);
        // who is inside may turn out to be larger
        assert!(lines.resize(40, 90) && !lines.resize(90, 101) && lines.resize(90, 30));
        assert_eq!(lines.usage().memory, 30);
    }

    #[test]
    fn clients_take_turns_whatever_the_length_of_their_lines() {
        let mut lines = Lines::new(limits(1, 100, 100), usize::MAX);
        enter(&mut lines, "flood", "first");
        for n in 0..6 {
            enter(&mut lines, "flood", &format!("f{n}"));
        }
        for who in ["a0", "b0", "a1"] {
            enter(&mut lines, &who[..1], who);
        }
        assert_eq!(lines.usage().clients, 3);
        assert_eq!(drain(&mut lines), ["f0", "a0", "b0", "f1", "a1", "f2", "f3", "f4", "f5"]);
        assert_empty(&lines);
    }

    #[test]
    fn who_has_half_of_the_places_gets_no_more_while_others_wait() {
        let mut lines = Lines::new(limits(4, 100, 100), usize::MAX);
        for n in 0..8 {
            enter(&mut lines, "flood", &format!("f{n}"));
        }
        assert_eq!(lines.usage().running, 4, "all, while nobody else is there");
        for n in 0..4 {
            enter(&mut lines, "ann", &format!("a{n}"));
        }
        let mut next = |who| lines.leave(&client(who), 1).map(|(who, ..)| who).unwrap_or_default();
        assert_eq!([(); 2].map(|()| next("flood")), ["a0", "a1"]);
        // both have half: they take turns
        assert_eq!([(); 2].map(|()| next("flood")), ["f4", "f5"]);
        assert_eq!([(); 2].map(|()| next("ann")), ["a2", "a3"]);
        // and all that others do not want
        assert_eq!([(); 2].map(|()| next("ann")), ["f6", "f7"]);
        let inside = [lines.inside_of(&client("flood")), lines.inside_of(&client("ann"))];
        assert_eq!(inside, [4, 0]);
    }

    #[test]
    fn a_client_has_no_more_places_than_it_may_have() {
        let mut lines = Lines::new(limits(4, 100, 100), 2);
        for n in 0..3 {
            enter(&mut lines, "flood", &format!("f{n}"));
        }
        assert_eq!((lines.usage().running, lines.usage().queued), (2, 1));
        assert_eq!(enter(&mut lines, "ann", "a"), None, "there is a place");
        assert_eq!(lines.usage().running, 3);
        assert_eq!(lines.leave(&client("ann"), 1), None);
        assert!(lines.leave(&client("flood"), 1).is_some_and(|(who, ..)| who == "f2"));
    }

    #[test]
    fn a_full_queue_has_room_for_others_than_who_filled_it() {
        let mut lines = Lines::new(limits(1, 4, 100), usize::MAX);
        enter(&mut lines, "flood", "inside");
        for n in 0..4 {
            enter(&mut lines, "flood", &format!("f{n}"));
        }
        assert_eq!(enter(&mut lines, "flood", "more"), None, "not for who filled it");
        for (name, displaced) in [("a", "f3"), ("b", "f2")] {
            let (entered, gone) = lines.enter(&client(name), 1, || name.to_owned());
            assert!(matches!(entered, Entered::Waits(_)));
            assert_eq!(gone.as_deref(), Some(displaced));
        }
        assert!(enter(&mut lines, "c", "c").is_some(), "two to one");
        assert_eq!(enter(&mut lines, "d", "d"), None, "all lines are as short");
        assert_eq!(lines.usage().refused, 5);
        assert_eq!(drain(&mut lines), ["f0", "a", "b", "c"]);
        assert_empty(&lines);
    }

    #[test]
    fn nobody_is_displaced_in_vain() {
        let mut lines = Lines::new(limits(1, 10, 10), usize::MAX);
        for bytes in [2, 4, 2, 2] {
            lines.enter(&client("flood"), bytes, || "flood".to_owned());
        }
        let mut late = |bytes| lines.enter(&client("late"), bytes, || "late".to_owned());
        assert!(matches!(late(3), (Entered::Refused(Refusal::Memory), None)));
        assert!(matches!(late(2), (Entered::Waits(_), Some(_))));
        assert_eq!(lines.usage().memory, 10);
    }

    #[test]
    fn who_withdraws_leaves_nothing_behind() {
        let mut lines = Lines::new(limits(1, 100, 1000), usize::MAX);
        enter(&mut lines, "a", "inside");
        let mut tickets: Vec<Ticket> = (0..50)
            .filter_map(|n| enter(&mut lines, &format!("client {}", n % 7), &n.to_string()))
            .collect();
        let kept = tickets.swap_remove(20);
        for ticket in &tickets {
            assert!(lines.withdraw(ticket).is_some());
            assert_eq!(lines.withdraw(ticket), None, "once");
        }
        let usage = lines.usage();
        assert_eq!((usage.queued, usage.clients, usage.withdrawn), (1, 1, 49));
        assert_eq!(drain(&mut lines), ["20"]);
        assert_eq!(lines.withdraw(&kept), None, "it is in");
        assert_empty(&lines);
    }
}
