//! Limits how many hashes of passwords are computed at once, with turns for clients and users.

use std::sync::{Mutex, PoisonError};
use std::thread::available_parallelism;

use asyncsteps::Time;

use asyncsteps_actors::budget::{Budget, Client, Limits, Permit};

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
/// Clients that wait take turns, and so do the users of each client: a right password waits for at
/// most one wrong password of each other user of its client and of each other client.
pub(super) struct Hashing {
    all: Budget,
    clients: Mutex<Recent<Client, Budget>>,
}

/// Permits the computation of one hash, until it is dropped.
pub(super) struct HashPermit {
    _of_client: Permit,
    _of_all: Permit,
}

impl Hashing {
    pub(super) fn new() -> Self {
        Self { all: budget(WAITING), clients: Mutex::new(Recent::new(CLIENTS)) }
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
        let of_client = self.of(client).admit(&user, 0);
        let of_client = admission::permit(of_client, deadline, grace_end).await?;
        let of_all = admission::permit(self.all.admit(client, 0), deadline, grace_end).await?;
        Ok(HashPermit { _of_client: of_client, _of_all: of_all })
    }

    fn of(&self, client: &Client) -> Budget {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.get_or_insert_with(client.clone(), || budget(WAITING_OF_CLIENT)).clone()
    }
}

fn budget(queued: usize) -> Budget {
    let concurrent = available_parallelism().map_or(1, usize::from);
    Budget::new(Limits { concurrent, queued, memory: usize::MAX })
}
