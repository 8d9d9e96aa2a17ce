//! How many connections there are, in all and of each client.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use asyncsteps_budget::Client;

/// The open connections of a server; a cheap handle.
#[derive(Clone, Debug)]
pub(super) struct Connections(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    most: usize,
    most_of_client: usize,
    open: Mutex<Open>,
    /// Notified when the last one ends.
    none_left: Notify,
}

#[derive(Debug, Default)]
struct Open {
    all: usize,
    by_client: HashMap<Client, usize>,
    /// Refused since one was let in; the first one is logged.
    refused: usize,
}

/// An open connection; it is counted out when this is dropped.
#[derive(Debug)]
pub(super) struct Connected {
    connections: Connections,
    client: Client,
}

impl Connections {
    pub(super) fn new(most: usize, most_of_client: usize) -> Self {
        Self(Arc::new(Shared {
            most,
            most_of_client,
            open: Mutex::default(),
            none_left: Notify::new(),
        }))
    }

    /// Counts a connection in; `None` if there are too many.
    pub(super) fn enter(&self, peer: SocketAddr) -> Option<Connected> {
        let client = Client::from(peer);
        let Shared { most, most_of_client, .. } = &*self.0;
        let mut open = self.0.open.lock();
        let of_client = open.by_client.get(&client).copied().unwrap_or(0);
        if open.all >= *most || of_client >= *most_of_client {
            open.refused += 1;
            if open.refused == 1 {
                tracing::warn!(%peer, open = open.all, of_client, "too many connections");
            }
            return None;
        }
        open.refused = 0;
        open.all += 1;
        open.by_client.insert(client.clone(), of_client + 1);
        Some(Connected { connections: self.clone(), client })
    }

    /// Whether more than three quarters of the connections that are allowed are open, in all or for a client.
    pub(super) fn are_many(&self, client: &Client) -> bool {
        let Shared { most, most_of_client, .. } = &*self.0;
        let open = self.0.open.lock();
        let of_client = open.by_client.get(client).copied().unwrap_or(0);
        open.all > most / 4 * 3 || of_client > most_of_client / 4 * 3
    }

    /// Waits until there is none.
    pub(super) async fn none_left(&self) {
        loop {
            let told = self.0.none_left.notified();
            if self.0.open.lock().all == 0 {
                return;
            }
            told.await;
        }
    }
}

impl Connected {
    pub(super) fn connections(&self) -> &Connections {
        &self.connections
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        let mut open = self.connections.0.open.lock();
        open.all -= 1;
        if let Some(of_client) = open.by_client.get_mut(&self.client) {
            *of_client -= 1;
            if *of_client == 0 {
                open.by_client.remove(&self.client);
            }
        }
        if open.all == 0 {
            self.connections.0.none_left.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn peer(address: &str) -> SocketAddr {
        address.parse().expect("an address")
    }

    #[test]
    fn one_client_leaves_room_for_others() {
        let connections = Connections::new(4, 2);
        let [ann, bob, eve] = ["10.0.0.1:1", "10.0.0.2:1", "[2001:db8::1]:1"].map(peer);
        let mut open = [ann, ann].map(|peer| connections.enter(peer));
        assert!(open.iter().all(Option::is_some) && connections.enter(ann).is_none());
        open[0] = None;
        let more = [ann, bob, eve].map(|peer| connections.enter(peer));
        assert!(more.iter().all(Option::is_some));
        assert!(connections.enter(bob).is_none(), "four in all");
        drop(more);
        assert!(connections.none_left().now_or_never().is_none());
        drop(open);
        assert!(connections.none_left().now_or_never().is_some());
        assert!(connections.0.open.lock().by_client.is_empty());
    }
}
