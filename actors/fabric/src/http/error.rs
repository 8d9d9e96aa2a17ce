//! Why a service cannot be called as it is configured.

/// Why a service cannot be called as it is configured. The message says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// An option is zero.
    #[error("{option} is 0: nothing could be done with it")]
    Zero {
        /// The option.
        option: &'static str,
    },
    /// The configuration of TLS names protocols.
    #[error("tls names protocols (ALPN): leave the list empty, calls are made over HTTP/1.1")]
    Protocols,
    /// TLS does not work here.
    #[error("TLS cannot be used: {0}")]
    Tls(String),
    /// The URL cannot be called.
    #[error("{url:?} is no URL of a service: {why}")]
    Url {
        /// The URL, without a password.
        url: String,
        /// The mistake in it.
        why: String,
    },
    /// The definition is of another interface or version.
    #[error("{interface} is registered with the definition of {definition}")]
    Definition {
        /// The interface that is registered.
        interface: String,
        /// The one that is defined.
        definition: String,
    },
    /// The interface requires what the URL does not offer.
    #[error("{interface} requires {constraint}: register it with {instead}")]
    Channel {
        /// The interface.
        interface: String,
        /// The constraint (FTN3 §2).
        constraint: &'static str,
        /// A URL that offers it.
        instead: &'static str,
    },
}
