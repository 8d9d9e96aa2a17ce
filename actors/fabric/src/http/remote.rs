//! A service elsewhere.

use std::sync::Arc;

use asyncsteps_executor::iface::Definition;
use asyncsteps_executor::security::{MacAlgorithm, MacKey, Secret};

use super::credentials::ServiceCredentials;

/// A FutoIn service elsewhere: its URL, and how it is called.
///
/// Calls are anonymous unless it has [`password`](Self::password) or [`signature`](Self::signature).
#[derive(Clone, derive_more::Debug)]
#[debug(
    "Remote {{ credentials: {credentials:?}, names_user: {names_user:?}, definition: {:?}, .. }}",
    self.definition.as_ref().map(|definition| definition.id())
)]
#[must_use = "a fabric registers it"]
pub struct Remote {
    pub(super) url: String,
    pub(super) credentials: ServiceCredentials,
    pub(super) names_user: bool,
    pub(super) definition: Option<Arc<Definition>>,
}

impl Remote {
    /// A service at a URL, see [`http`](super). It is looked at when the service is
    /// [registered](super::HttpFabric::register).
    pub fn new(url: impl Into<String>) -> Self {
        let credentials = ServiceCredentials::Anonymous;
        Self { url: url.into(), credentials, names_user: false, definition: None }
    }

    /// Calls as a user with a password (FTN8.1 §2.1), in place of a signature. It is sent as it is: use TLS.
    pub fn password(self, user: impl Into<String>, password: Secret) -> Self {
        Self { credentials: ServiceCredentials::Password(user.into(), password), ..self }
    }

    /// Calls as a user, with a signature of each message (FTN8.1 §2.2), in place of a password. A result
    /// has to be signed with the same key; an error may be unsigned, because an executor that refuses
    /// the credentials has no key.
    pub fn signature(self, user: impl Into<String>, algorithm: MacAlgorithm, key: MacKey) -> Self {
        Self { credentials: ServiceCredentials::Signature(user.into(), algorithm, key), ..self }
    }

    /// Names the user that a call acts for (FTN3 §1.11, field `obf`). The service has to grant the
    /// credentials the level System, and refuses such calls with SecurityError otherwise. Unless this is
    /// set the service does not learn the user.
    pub fn on_behalf_of_users(self) -> Self {
        Self { names_user: true, ..self }
    }

    /// Checks parameters and results on this side too, and over HTTP limits answers to what the definition says
    /// (`maxrspsize`). Wrong parameters are InvokerError, and the call is not made. The interface's requirements of the
    /// channel are checked when the service is registered. Messages are in MessagePack where the interface requires
    /// BinaryData (FTN3 §2.4), and in JSON otherwise.
    ///
    /// Without a definition, an empty map over WebSocket counts as no result: FTN3 §1.1 writes it so.
    pub fn definition(self, definition: Arc<Definition>) -> Self {
        Self { definition: Some(definition), ..self }
    }
}
