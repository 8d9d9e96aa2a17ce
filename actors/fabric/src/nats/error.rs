//! Why a node cannot join.

use std::io;

use async_nats::{ConnectError, ConnectErrorKind, rustls};

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
    #[error(
        "the credentials in {path} cannot be read: give a certificate as PEM, the file that nsc wrote, or one with a token"
    )]
    CredentialsFile {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// TLS does not work.
    #[error("TLS with {servers} fails, {cause}: check the certificates, and tls:// in the URL")]
    Tls {
        /// The servers.
        servers: String,
        /// What is wrong, such as with the certificate of the server.
        cause: String,
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
        if let Some(cause) = cause_of_tls(&source) {
            return Self::Tls { servers, cause, source };
        }
        match source.kind() {
            ConnectErrorKind::ServerParse => Self::Servers { servers, source },
            ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
                Self::Refused { servers, source }
            }
            ConnectErrorKind::Dns
            | ConnectErrorKind::Tls
            | ConnectErrorKind::TimedOut
            | ConnectErrorKind::Io
            | ConnectErrorKind::MaxReconnects => Self::Unreachable { servers, source },
        }
    }
}

/// What is wrong with TLS, if that is why a client cannot connect. async-nats has an error of the certificate as one of
/// the connection, and those of files only in words.
fn cause_of_tls(error: &ConnectError) -> Option<String> {
    let mut source = std::error::Error::source(error);
    let is_tls = error.kind() == ConnectErrorKind::Tls;
    let mut cause = is_tls.then(|| "a certificate cannot be used".to_owned());
    while let Some(error) = source {
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let of_tls = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match of_tls.or_else(|| error.downcast_ref()) {
            Some(error) => return Some(error.to_string()),
            None if is_tls => cause = Some(error.to_string()),
            None => {}
        }
        source = error.source();
    }
    cause
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
