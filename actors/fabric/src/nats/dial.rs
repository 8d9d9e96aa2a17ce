//! A client of async-nats: its options, its server, and the check of that.

use std::future::ready;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::{
    AuthError, Client, ConnectErrorKind, ConnectOptions, ReconnectToServer, Server, ServerAddr,
};
use asyncsteps_actors::random;
use parking_lot::Mutex;

use super::config::Config;
use super::credentials::servers;
use super::error::NatsError;
use super::events::Events;
use crate::node::NodeId;

/// Messages that come faster than they are taken wait here. They are taken in each turn of the task of the
/// connection, which reads some megabytes at most before others have their turn.
const SUBSCRIPTION_CAPACITY: usize = 1 << 18;

/// Messages that wait to be sent.
const CLIENT_CAPACITY: usize = 1 << 16;

/// The longest pause between two attempts to connect again.
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// Makes the clients of a connection, one after the other.
#[derive(Debug)]
pub(super) struct Dialler {
    pub(super) config: Config,
    node: NodeId,
    pub(super) events: Arc<Events>,
    /// The servers that were dialled, the latest one last.
    dialled: Arc<Mutex<Vec<ServerAddr>>>,
    /// How many clients there were.
    clients: AtomicU64,
}

/// A client; later ones have higher numbers.
#[derive(Debug)]
pub(super) struct NumberedClient {
    pub(super) number: u64,
    pub(super) client: Client,
    /// How often the connection was lost before.
    pub(super) losses: u64,
    /// The number of the first of the clients that have wound down for the next one: of all of them, one gets a message.
    pub(super) first: u64,
}

impl Dialler {
    pub(super) fn new(config: &Config, node: &NodeId, events: Arc<Events>) -> Self {
        let (config, node) = (config.clone(), node.clone());
        Self { config, node, events, dialled: Arc::default(), clients: AtomicU64::new(0) }
    }

    /// Connects a client to one of the servers, also of those that others of the cluster have named: to the one whose
    /// turn is longest ago.
    pub(super) async fn dial(&self, discovered: &[String]) -> Result<NumberedClient, NatsError> {
        let Config { credentials, servers: listed, .. } = &self.config;
        let wrong = |file: &Path, source| NatsError::CredentialsFile {
            path: file.display().to_string(),
            source,
        };
        // the error of a file says more than that of a connection
        for file in self.config.files() {
            tokio::fs::File::open(file).await.map_err(|error| wrong(file, error))?;
        }
        let of_credentials = credentials.file().unwrap_or_else(|| Path::new(""));
        credentials.auth(listed, &[]).await.map_err(|error| wrong(of_credentials, error))?;
        let number = self.clients.fetch_add(1, Ordering::Relaxed) + 1;
        let mut servers = servers(listed);
        servers.extend_from_slice(discovered);
        let mut attempts = servers.len();
        let client = loop {
            attempts -= 1;
            match self.options(number).connect(&servers).await {
                Ok(client) => break client,
                Err(error) if attempts > 0 && error.kind() != ConnectErrorKind::ServerParse => {}
                Err(error) => return Err(NatsError::of_connect(error, listed)),
            }
        };
        let (major, minor) = self.config.min_server;
        let version = client.server_info().version;
        if !is_new_enough(&version, self.config.min_server) {
            let needed = format!("{major}.{minor}");
            return Err(NatsError::OldServer { found: version, needed });
        }
        let losses = self.events.count_losses();
        Ok(NumberedClient { number, client, losses, first: number })
    }

    fn options(&self, number: u64) -> ConnectOptions {
        let (config, events) = (Arc::new(self.config.clone()), Arc::clone(&self.events));
        let dialled = Arc::clone(&self.dialled);
        let credentials = Arc::clone(&config);
        let mut options =
            ConnectOptions::with_auth_callback(move |nonce| {
                let config = Arc::clone(&credentials);
                async move {
                    config.credentials.auth(&config.servers, &nonce).await.map_err(AuthError::new)
                }
            })
            .name(self.node.as_str())
            .connection_timeout(config.connect_timeout)
            .subscription_capacity(SUBSCRIPTION_CAPACITY)
            .client_capacity(CLIENT_CAPACITY)
            .reconnect_delay_callback(pause)
            .reconnect_to_server_callback(move |pool, _| {
                ready(next_server(&pool, &mut dialled.lock()))
            })
            // names are checked where they come from
            .skip_subject_validation(true)
            .event_callback(move |event| {
                events.happened(number, &event);
                ready(())
            });
        if let Some(path) = &config.root_certificates {
            options = options.add_root_certificates(path.clone());
        }
        if let Some((certificate, key)) = &config.client_certificate {
            options = options.add_client_certificate(certificate.clone(), key.clone());
        }
        options
    }
}

/// The server to dial: of those that failed least, the one whose turn is longest ago. So a server that is silent, or
/// that ends, comes after all others.
fn next_server(pool: &[Server], dialled: &mut Vec<ServerAddr>) -> Option<ReconnectToServer> {
    let turn = |server: &Server| {
        (server.failed_attempts, dialled.iter().position(|addr| *addr == server.addr))
    };
    let first = pool.iter().map(turn).min()?;
    let equal: Vec<&Server> = pool.iter().filter(|server| turn(server) == first).collect();
    // so that the nodes do not all go to the same one
    let random = random::id().bytes().map(usize::from).sum::<usize>();
    let addr = equal.get(random % equal.len())?.addr.clone();
    dialled.retain(|dialled| *dialled != addr);
    dialled.push(addr.clone());
    Some(ReconnectToServer { addr, delay: None })
}

/// The pause before an attempt to connect again, from the second one on.
pub(super) fn pause(attempt: usize) -> Duration {
    let doubled = u32::try_from(attempt.saturating_sub(1)).unwrap_or(u32::MAX).min(8);
    (Duration::from_millis(25) * (1 << doubled)).min(MAX_PAUSE)
}

/// Whether the version of a server, such as `2.9.10`, is the one that is needed or a newer one.
fn is_new_enough(version: &str, needed: (u32, u32)) -> bool {
    let mut parts = version.trim_start_matches('v').split(['.', '-']).map(str::parse::<u32>);
    let (Some(Ok(major)), Some(Ok(minor))) = (parts.next(), parts.next()) else { return false };
    (major, minor) >= needed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        for (version, expected) in [
            ("2.9.10", true),
            ("2.10.0-beta.1", true),
            ("v3.0.0", true),
            ("2.8.4", false),
            ("1.10.0", false),
            ("", false),
            ("two", false),
        ] {
            assert_eq!(is_new_enough(version, (2, 9)), expected, "{version}");
        }
    }

    #[test]
    fn pauses_grow_up_to_a_limit() {
        assert!(pause(0) <= pause(1) && pause(1) < pause(3));
        assert_eq!(pause(usize::MAX), MAX_PAUSE);
    }

    #[test]
    fn the_server_whose_turn_is_longest_ago_is_dialled() {
        let server = |name: &str, failed_attempts| Server {
            addr: name.parse().expect("a name"),
            failed_attempts,
            did_connect: false,
            is_discovered: false,
            last_error: None,
        };
        let mut dialled = Vec::new();
        let mut next = |pool: &[Server]| {
            let chosen = next_server(pool, &mut dialled).expect("there are some");
            chosen.addr.host().to_owned()
        };
        let pool = ["a", "b", "c"].map(|name| server(name, 0));
        let turns: Vec<_> = (0..6).map(|_| next(&pool)).collect();
        assert_eq!(turns[..3], turns[3..]);
        assert_ne!(turns[0], turns[1]);
        assert_eq!(next(&[server("a", 1), server("b", 2)]), "a", "it failed less often");
        assert!(next_server(&[], &mut Vec::new()).is_none());
    }
}
