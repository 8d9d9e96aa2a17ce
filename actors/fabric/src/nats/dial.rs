//! A client of async-nats: its options, and the check of its server.

use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event, ServerAddr};
use tokio::sync::watch;

use super::config::{Config, NodeCredentials};
use super::connection::Losses;
use super::error::NatsError;
use crate::node::NodeId;

/// Messages that come faster than they are taken wait here. They are taken in each turn of the task of the
/// connection, which reads some megabytes at most before others have their turn.
const SUBSCRIPTION_CAPACITY: usize = 1 << 18;

/// Messages that wait to be sent.
const CLIENT_CAPACITY: usize = 1 << 16;

/// The longest pause between two attempts to connect again.
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// Connects a client; events of its connection are counted.
pub(super) async fn dial(
    config: &Config,
    node: &NodeId,
    losses: &Arc<watch::Sender<Losses>>,
) -> Result<Client, NatsError> {
    let options = options(config, node, losses).await?;
    let client = options
        .connect(servers(&config.servers))
        .await
        .map_err(|error| NatsError::of_connect(error, &config.servers))?;
    let (major, minor) = config.min_server;
    let version = client.server_info().version;
    if !is_new_enough(&version, config.min_server) {
        let needed = format!("{major}.{minor}");
        return Err(NatsError::OldServer { found: version, needed });
    }
    Ok(client)
}

async fn options(
    config: &Config,
    node: &NodeId,
    losses: &Arc<watch::Sender<Losses>>,
) -> Result<ConnectOptions, NatsError> {
    let losses = Arc::clone(losses);
    let mut options = ConnectOptions::new()
        .name(node.as_str())
        .connection_timeout(config.connect_timeout)
        .subscription_capacity(SUBSCRIPTION_CAPACITY)
        .client_capacity(CLIENT_CAPACITY)
        .reconnect_delay_callback(pause)
        // names are checked where they come from
        .skip_subject_validation(true)
        .event_callback(move |event| {
            count(&event, &losses);
            std::future::ready(())
        });
    if let Some(path) = &config.root_certificates {
        options = options.add_root_certificates(path.clone());
    }
    if let Some((certificate, key)) = &config.client_certificate {
        options = options.add_client_certificate(certificate.clone(), key.clone());
    }
    Ok(match &config.credentials {
        NodeCredentials::Anonymous => match credentials_of_url(&config.servers) {
            Some((user, Some(password))) => options.user_and_password(user, password),
            Some((token, None)) => options.token(token),
            None => options,
        },
        NodeCredentials::User(user, password) => {
            options.user_and_password(user.clone(), password.expose().to_owned())
        }
        NodeCredentials::Token(token) => options.token(token.expose().to_owned()),
        NodeCredentials::File(path) => options.credentials_file(path).await.map_err(|source| {
            NatsError::CredentialsFile { path: path.display().to_string(), source }
        })?,
    })
}

/// The user and the password, or the token, that the first of the URLs has.
fn credentials_of_url(urls: &str) -> Option<(String, Option<String>)> {
    let server: ServerAddr = servers(urls).first()?.parse().ok()?;
    Some((server.username()?.to_owned(), server.password().map(ToOwned::to_owned)))
}

/// Counts what happened to the connection, or logs it.
fn count(event: &Event, losses: &watch::Sender<Losses>) {
    match event {
        Event::Disconnected => losses.send_modify(Losses::lose),
        Event::Connected => losses.send_modify(Losses::end),
        Event::SlowConsumer(_) => {
            tracing::error!("a message was dropped: the node does not keep up with its connection");
        }
        Event::ServerError(error) => tracing::warn!(%error, "the NATS server reports an error"),
        Event::ClientError(error) => tracing::warn!(%error, "the connection reports an error"),
        // the subscriptions end with it
        Event::LameDuckMode | Event::Draining | Event::Closed => {}
    }
}

/// The pause before an attempt to connect again, from the second one on.
pub(super) fn pause(attempt: usize) -> Duration {
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
