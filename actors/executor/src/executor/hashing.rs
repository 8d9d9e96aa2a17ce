//! Who may compute the hash of a password: a few at once, and each client and user in its turn.

use std::sync::{Mutex, PoisonError};
use std::thread::available_parallelism;

use asyncsteps::Time;

use super::Refused;
use super::admission::Flight;
use asyncsteps_actors::budget::{Budget, Client, Limits, Permit};
use asyncsteps_futoin::net::Recent;

/// How many may wait, over all clients.
const WAITING: usize = 1_000;

/// How many of one client may wait: about what two processors do in a second. More are refused at
/// once, so that a flood of wrong passwords costs its client and not the others.
const WAITING_OF_CLIENT: usize = 64;

/// How many clients are remembered; each takes some hundred bytes.
const CLIENTS: usize = 10_000;

/// The places in which hashes are computed: as many as there are processors, because they take memory
/// too. The clients that wait take turns, and so do the users of each client. So a right password
/// waits for one wrong one of each other user of its client, and of each other client.
pub(super) struct Hashing {
    all: Budget,
    clients: Mutex<Recent<Client, Budget>>,
}

/// A place, given back when it is dropped.
pub(super) struct Place {
    _of_client: Permit,
    _of_all: Permit,
}

impl Hashing {
    pub(super) fn new() -> Self {
        Self { all: budget(WAITING), clients: Mutex::new(Recent::new(CLIENTS)) }
    }

    /// Waits for a place for the hash of this user's password, as long as the request has time.
    pub(super) async fn enter(
        &self,
        flight: &Flight,
        client: &Client,
        user: Option<&str>,
        deadline: Time,
    ) -> Result<Place, Refused> {
        let user = user.map_or(Client::Unknown, Client::from);
        let of_client = flight.wait(self.of(client).admit(&user, 0), deadline).await?;
        let of_all = flight.wait(self.all.admit(client, 0), deadline).await?;
        Ok(Place { _of_client: of_client, _of_all: of_all })
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
