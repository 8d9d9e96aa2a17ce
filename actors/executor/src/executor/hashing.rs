//! Limits how many hashes of passwords are computed at once, with turns for clients and users.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::available_parallelism;

use asyncsteps_core::Time;

use asyncsteps_actors::budget::{Budget, Client, Limits, Permit};
use parking_lot::Mutex;

use super::admission::{self, GraceEnd};
use super::refused::Refused;
use crate::recent::Recent;

/// Most computations that may wait, over all clients.
const WAITING: usize = 1_000;

/// Most computations of one client that may wait: about what two processors do in a second. More are
/// refused at once, so that a flood of wrong passwords costs its client and not the others.
const WAITING_OF_CLIENT: usize = 64;

/// Most clients that are remembered, at some hundred bytes each.
const CLIENTS: usize = 10_000;

/// Permits to compute hashes: one per processor, because each computation takes memory too.
///
/// Clients that wait take turns, and so do the users of each client. Clients whose last password was wrong
/// have half of the processors at most, however many they are. So a right password waits for at most one
/// wrong password of each other user of its client, and of each other client that was not wrong before.
pub(super) struct Hashing {
    all: Budget,
    /// Of clients whose last password was wrong.
    suspects: Budget,
    clients: Mutex<Recent<Client, OfClient>>,
}

/// The memory of a client; a cheap handle.
#[derive(Clone)]
struct OfClient {
    budget: Budget,
    was_wrong: Arc<AtomicBool>,
}

/// Permits the computation of one hash, until it is dropped.
pub(super) struct HashPermit {
    was_wrong: Arc<AtomicBool>,
    _of_client: Permit,
    _of_suspects: Option<Permit>,
    _of_all: Permit,
}

impl HashPermit {
    /// Notes whether the password was right.
    pub(super) fn judge(&self, is_right: bool) {
        self.was_wrong.store(!is_right, Ordering::Relaxed);
    }
}

impl Hashing {
    pub(super) fn new() -> Self {
        let processors = available_parallelism().map_or(1, usize::from);
        Self {
            all: budget(processors, WAITING),
            suspects: budget((processors / 2).max(1), WAITING),
            clients: Mutex::new(Recent::new(CLIENTS)),
        }
    }

    /// Waits for the permit to hash this user's password, as long as the request has time.
    pub(super) async fn enter(
        &self,
        client: &Client,
        user: Option<&str>,
        deadline: Time,
        grace_end: &GraceEnd,
    ) -> Result<HashPermit, Refused> {
        let user = user.map_or(Client::Unknown, Client::from);
        let OfClient { budget, was_wrong } = self.of(client);
        let of_client = admission::permit(budget.admit(&user, 0), deadline, grace_end).await?;
        let of_suspects = if was_wrong.load(Ordering::Relaxed) {
            let pending = self.suspects.admit(client, 0);
            Some(admission::permit(pending, deadline, grace_end).await?)
        } else {
            None
        };
        let of_all = admission::permit(self.all.admit(client, 0), deadline, grace_end).await?;
        Ok(HashPermit {
            was_wrong,
            _of_client: of_client,
            _of_suspects: of_suspects,
            _of_all: of_all,
        })
    }

    fn of(&self, client: &Client) -> OfClient {
        let mut clients = self.clients.lock();
        let made = || {
            let processors = available_parallelism().map_or(1, usize::from);
            let budget = budget(processors, WAITING_OF_CLIENT);
            OfClient { budget, was_wrong: Arc::default() }
        };
        clients.get_or_insert_with(client.clone(), made).clone()
    }
}

fn budget(concurrent: usize, queued: usize) -> Budget {
    Budget::new(Limits { concurrent, queued, memory: usize::MAX })
}
