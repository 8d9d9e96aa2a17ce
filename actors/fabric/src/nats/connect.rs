//! Joining: the connection, and the tasks that come with it.

use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, ConnectOptions, ServerAddr, Subscriber};
use asyncsteps_actors::random;

use super::calls::Calls;
use super::config::{Config, Credentials};
use super::error::{NatsError, without_passwords};
use super::link::{Link, LinkState};
use super::subjects::Subjects;
use crate::node::NodeId;

/// Messages that come faster than they are taken wait here. They are taken in each turn of the task of the
/// connection, which reads some megabytes at most before others have their turn.
const SUBSCRIPTION_CAPACITY: usize = 1 << 18;

/// Messages that wait to be sent.
const CLIENT_CAPACITY: usize = 1 << 16;

/// The longest pause between two attempts to connect again.
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// Connects, and checks the server; gives the inbox too.
pub(super) async fn connect(config: Config) -> Result<(Arc<Link>, Subscriber), NatsError> {
    config.check()?;
    let id = random::id();
    let node = match &config.node {
        Some(node) => node.clone(),
        None => node_id(&id),
    };
    // each node has an inbox of its own: one that was restarted gets no old answers
    let calls = Calls::new(&id, config.max_calls);
    let state = Arc::new(LinkState::new(calls));
    let (client, inbox) = dial(&config, &node, &state).await?;
    let (major, minor) = config.min_server;
    let version = client.server_info().version;
    if !is_new_enough(&version, config.min_server) {
        let needed = format!("{major}.{minor}");
        return Err(NatsError::OldServer { found: version, needed });
    }
    let subjects = Subjects::new(&config.prefix);
    Ok((Arc::new(Link::new(client, config, node, subjects, state)), inbox))
}

/// Makes a client in place of one that has ended, and gives its inbox; `None` once the node has left.
///
/// The task of a client ends when it panics, as that of async-nats 0.51 does at a header whose value has a
/// carriage return.
pub(super) async fn reconnect(link: &Link) -> Option<Subscriber> {
    for attempt in 1.. {
        if link.state.is_closed() {
            return None;
        }
        if attempt == 1 {
            tracing::error!("the task of the connection has ended: the node connects again");
            link.state.end();
        }
        tokio::time::sleep(pause(attempt)).await;
        match dial(&link.config, &link.node, &link.state).await {
            Ok((client, inbox)) => {
                link.replace_client(client);
                return Some(inbox);
            }
            Err(error) => tracing::warn!(attempt, %error, "the node cannot connect again"),
        }
    }
    None
}

/// A client that is connected, with its inbox: answers come to it before anything is asked.
async fn dial(
    config: &Config,
    node: &NodeId,
    state: &Arc<LinkState>,
) -> Result<(Client, Subscriber), NatsError> {
    let options = options(config, node, state).await?;
    let servers = servers(&config.servers);
    let client = options
        .connect(servers)
        .await
        .map_err(|error| NatsError::of_connect(error, &config.servers))?;
    let inbox = client.subscribe(state.calls.subject()).await;
    let inbox = inbox.map_err(|_| lost(config))?;
    Ok((client, inbox))
}

async fn options(
    config: &Config,
    node: &NodeId,
    state: &Arc<LinkState>,
) -> Result<ConnectOptions, NatsError> {
    let told = Arc::clone(state);
    let mut options = ConnectOptions::new()
        .name(node.as_str())
        .connection_timeout(config.connect_timeout)
        .subscription_capacity(SUBSCRIPTION_CAPACITY)
        .client_capacity(CLIENT_CAPACITY)
        .reconnect_delay_callback(pause)
        // names are checked where they come from
        .skip_subject_validation(true)
        .event_callback(move |event| {
            told.changed(&event);
            std::future::ready(())
        });
    if let Some(path) = &config.root_certificates {
        options = options.add_root_certificates(path.clone());
    }
    if let Some((certificate, key)) = &config.client_certificate {
        options = options.add_client_certificate(certificate.clone(), key.clone());
    }
    Ok(match &config.credentials {
        Credentials::Anonymous => match credentials_of_url(&config.servers) {
            Some((user, Some(password))) => options.user_and_password(user, password),
            Some((token, None)) => options.token(token),
            None => options,
        },
        Credentials::User(user, password) => {
            options.user_and_password(user.clone(), password.expose().to_owned())
        }
        Credentials::Token(token) => options.token(token.expose().to_owned()),
        Credentials::File(path) => options.credentials_file(path).await.map_err(|source| {
            NatsError::CredentialsFile { path: path.display().to_string(), source }
        })?,
    })
}

/// The user and the password, or the token, that the first of the URLs has.
fn credentials_of_url(urls: &str) -> Option<(String, Option<String>)> {
    let server: ServerAddr = servers(urls).first()?.parse().ok()?;
    Some((server.username()?.to_owned(), server.password().map(ToOwned::to_owned)))
}

/// The pause before an attempt to connect again, from the second one on.
fn pause(attempt: usize) -> Duration {
    let doubled = u32::try_from(attempt.saturating_sub(1)).unwrap_or(u32::MAX).min(8);
    (Duration::from_millis(25) * (1 << doubled)).min(MAX_PAUSE)
}

fn servers(servers: &str) -> Vec<String> {
    servers.split(',').map(|server| server.trim().to_owned()).collect()
}

/// Whether the version of a server, such as `2.9.10`, is the one that is needed or a newer one.
fn is_new_enough(version: &str, needed: (u32, u32)) -> bool {
    let mut parts = version.trim_start_matches('v').split(['.', '-']).map(str::parse::<u32>);
    let (Some(Ok(major)), Some(Ok(minor))) = (parts.next(), parts.next()) else { return false };
    (major, minor) >= needed
}

/// A name for a node that has none.
fn node_id(id: &str) -> NodeId {
    let name = format!("node-{}", id.get(..12).unwrap_or_default());
    match name.parse() {
        Ok(node) => node,
        Err(error) => unreachable!("hexadecimal digits are a name: {error}"),
    }
}

/// The connection was lost while the node joined.
pub(super) fn lost(config: &Config) -> NatsError {
    NatsError::Lost { servers: without_passwords(&config.servers) }
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
}
