//! Why a node cannot join.

use async_nats::{ConnectError, ConnectErrorKind};

use crate::node::NodeId;

/// Why a node cannot join. The message says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NatsError {
    /// A name in the configuration does not fit into a subject.
    #[error(
        "{option} is {name:?}: use letters, digits, - and _, with dots between parts of a prefix"
    )]
    Name {
        /// The option.
        option: &'static str,
        /// Its value.
        name: String,
    },
    /// An option is zero.
    #[error("{option} is 0: nothing could be done with it")]
    Zero {
        /// The option.
        option: &'static str,
    },
    /// The servers are no URLs.
    #[error("{servers:?} are no servers: write nats://host:4222, several with commas between them")]
    Servers {
        /// As they were passed.
        servers: String,
        /// Why.
        source: ConnectError,
    },
    /// No server answers.
    #[error("no NATS server at {servers}: is it running, and may this machine connect?")]
    Unreachable {
        /// The servers.
        servers: String,
        /// Why.
        source: ConnectError,
    },
    /// The server refuses the credentials.
    #[error("the NATS server at {servers} refuses the credentials: check user, token or file")]
    Refused {
        /// The servers.
        servers: String,
        /// Why.
        source: ConnectError,
    },
    /// The file with the credentials cannot be used.
    #[error("the credentials in {path} cannot be read: give the file that nsc wrote")]
    CredentialsFile {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// TLS does not work.
    #[error("TLS with {servers} fails: check the certificates, and tls:// in the URL")]
    Tls {
        /// The servers.
        servers: String,
        /// Why.
        source: ConnectError,
    },
    /// The server is too old.
    #[error(
        "the NATS server has version {found}, and {needed} or newer is needed: upgrade it, or lower min_server"
    )]
    OldServer {
        /// Its version.
        found: String,
        /// The oldest that will do.
        needed: String,
    },
    /// Another node has the name.
    #[error(
        "there is a node {node} already: give each node a name of its own, or wait until that one has left"
    )]
    NameTaken {
        /// The name.
        node: NodeId,
    },
    /// The connection was lost at once.
    #[error("the connection to {servers} was lost while the node joined")]
    Lost {
        /// The servers.
        servers: String,
    },
}

impl NatsError {
    /// The connection to these servers was lost while the node joined.
    pub(super) fn lost(servers: &str) -> Self {
        Self::Lost { servers: without_passwords(servers) }
    }

    pub(super) fn of_connect(source: ConnectError, servers: &str) -> Self {
        let servers = without_passwords(servers);
        match source.kind() {
            ConnectErrorKind::ServerParse => Self::Servers { servers, source },
            ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
                Self::Refused { servers, source }
            }
            ConnectErrorKind::Tls => Self::Tls { servers, source },
            ConnectErrorKind::Dns
            | ConnectErrorKind::TimedOut
            | ConnectErrorKind::Io
            | ConnectErrorKind::MaxReconnects => Self::Unreachable { servers, source },
        }
    }
}

/// The servers as they may be in a log.
fn without_passwords(servers: &str) -> String {
    let shown = servers.split(',').map(|server| {
        match (server.split_once("://"), server.rsplit_once('@')) {
            (Some((scheme, _)), Some((_, host))) => format!("{scheme}://***@{host}"),
            (None, Some((_, host))) => format!("***@{host}"),
            (_, None) => server.to_owned(),
        }
    });
    shown.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        for (servers, shown) in [
            ("nats://a:4222", "nats://a:4222"),
            ("nats://u:p@a:4222,tls://b", "nats://***@a:4222,tls://b"),
            ("u:p@w@a", "***@a"),
        ] {
            assert_eq!(without_passwords(servers), shown);
        }
    }
}
