//! The accounting of memory that is held for clients in addition to the requests of a budget, without
//! threads and time.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use foldhash::{HashMap, HashMapExt as _};
use slab::Slab;

use super::client::Client;

/// The memory that is held for clients. A holding that waits for its client can be displaced: first the one that has
/// waited longest among the holdings of the client with the most bytes, and of several such clients.
#[derive(Debug)]
pub(super) struct Holdings<S> {
    all: Slab<ClientHolding<S>>,
    /// The clients with holdings that wait.
    clients: HashMap<Client, WaitingHoldings>,
    /// Bytes of all holdings that wait.
    waiting: usize,
    /// Numbers turns.
    last: u64,
}

#[derive(Debug)]
struct ClientHolding<S> {
    client: Client,
    bytes: usize,
    /// Its place among the waiting holdings, while it waits.
    turn: Option<u64>,
    signal: S,
}

/// The holdings of a client that wait, the longest first.
#[derive(Debug, Default)]
struct WaitingHoldings {
    bytes: usize,
    turns: BTreeMap<u64, usize>,
}

impl<S> Holdings<S> {
    pub(super) fn new() -> Self {
        Self { all: Slab::new(), clients: HashMap::new(), waiting: 0, last: 0 }
    }

    /// Bytes of the holdings that can be displaced.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    pub(super) fn insert(&mut self, client: Client, signal: S) -> usize {
        self.all.insert(ClientHolding { client, bytes: 0, turn: None, signal })
    }

    /// The bytes of a holding, which are to change: it cannot be displaced until they are
    /// [set](Self::set).
    pub(super) fn open(&mut self, key: usize) -> usize {
        let held = &mut self.all[key];
        if let Some(turn) = held.turn.take() {
            self.waiting -= held.bytes;
            if let Some(of_client) = self.clients.get_mut(&held.client) {
                of_client.bytes -= held.bytes;
                of_client.turns.remove(&turn);
                if of_client.turns.is_empty() {
                    self.clients.remove(&held.client);
                }
            }
        }
        held.bytes
    }

    /// Sets the bytes of a holding that is open, and whether it waits for its client from now on.
    pub(super) fn set(&mut self, key: usize, bytes: usize, waits: bool) {
        let held = &mut self.all[key];
        held.bytes = bytes;
        if waits {
            self.last += 1;
            held.turn = Some(self.last);
            self.waiting += bytes;
            let of_client = self.clients.entry(held.client.clone()).or_default();
            of_client.bytes += bytes;
            of_client.turns.insert(self.last, key);
        }
    }

    pub(super) fn remove(&mut self, key: usize) -> (usize, S) {
        self.open(key);
        let held = self.all.remove(key);
        (held.bytes, held.signal)
    }

    /// Removes the holding that is displaced next, if there is one; returns its bytes.
    pub(super) fn displace(&mut self) -> Option<(usize, S)> {
        let rank = |it: &&WaitingHoldings| (it.bytes, Reverse(it.turns.keys().next().copied()));
        let most = self.clients.values().max_by_key(rank)?;
        let (_, key) = most.turns.first_key_value()?;
        Some(self.remove(*key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_wait_of_the_client_with_the_most_bytes_is_displaced() {
        let mut holdings = Holdings::new();
        let mut hold = |client: &str, signal, bytes, waits| {
            let key = holdings.insert(client.into(), signal);
            holdings.set(key, bytes, waits);
            key
        };
        let moved = hold("eve", "e0", 20, true);
        hold("eve", "e1", 20, true);
        hold("eve", "at work", 500, false);
        hold("ann", "a0", 30, true);
        // its client has sent more
        let bytes = holdings.open(moved);
        holdings.set(moved, bytes + 1, true);
        assert_eq!(holdings.waiting(), 71);
        let displaced = std::iter::from_fn(|| holdings.displace()).collect::<Vec<_>>();
        assert_eq!(displaced, [(20, "e1"), (30, "a0"), (21, "e0")]);
        assert_eq!((holdings.waiting(), holdings.clients.len(), holdings.all.len()), (0, 0, 1));
    }
}
