//! Requests with credentials, as a provider checks them.

use std::net::IpAddr;

use super::credentials::Credentials;
use crate::message::{Headers, SignedFields, header_name};

/// The client as the transport knows it, without credentials (FTN8 §2.13).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Client {
    /// The source address.
    pub source: Option<IpAddr>,
    /// Whether messages cannot be read or changed on their way.
    pub secure: bool,
    /// The header `User-Agent`.
    pub user_agent: Option<String>,
}

/// The context of a request: its client and headers.
#[derive(Clone, Copy, derive_more::Debug)]
// headers may be secrets
pub struct RequestContext<'a> {
    client: &'a Client,
    #[debug(skip)]
    headers: Option<&'a dyn Headers>,
}

impl<'a> RequestContext<'a> {
    /// A request of this client, without headers.
    #[must_use]
    pub fn new(client: &'a Client) -> Self {
        Self { client, headers: None }
    }

    /// The same with the headers of its HTTP request.
    #[must_use]
    pub fn with_headers(self, headers: impl Into<Option<&'a dyn Headers>>) -> Self {
        Self { headers: headers.into(), ..self }
    }

    /// Where the request came from.
    #[must_use]
    pub fn client(&self) -> &'a Client {
        self.client
    }

    /// The first header of this name, in any case. On a WebSocket connection it is a
    /// header of the upgrade.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&'a str> {
        self.headers?.header(&header_name(name))
    }

    /// The request in the terms of its transport, if that is of this type.
    ///
    /// Over the HTTP transport of `asyncsteps-executor` it is a `RequestHead`.
    #[must_use]
    pub fn transport<T: 'static>(&self) -> Option<&'a T> {
        self.headers?.transport()?.downcast_ref()
    }
}

/// A request with credentials.
#[derive(Debug, Clone, Copy)]
pub struct Attempt<'a> {
    credentials: &'a Credentials,
    signed: &'a SignedFields<'a>,
    context: RequestContext<'a>,
}

impl<'a> Attempt<'a> {
    /// Credentials, the fields that a signature must cover, and the client.
    #[must_use]
    pub fn new(
        credentials: &'a Credentials,
        signed: &'a SignedFields<'a>,
        client: &'a Client,
    ) -> Self {
        Self { credentials, signed, context: RequestContext::new(client) }
    }

    /// The same with the context of the request.
    #[must_use]
    pub fn with_context(self, context: RequestContext<'a>) -> Self {
        Self { context, ..self }
    }

    /// The credentials of the request.
    #[must_use]
    pub fn credentials(&self) -> &'a Credentials {
        self.credentials
    }

    /// The fields that a signature must cover.
    #[must_use]
    pub fn signed(&self) -> &'a SignedFields<'a> {
        self.signed
    }

    /// Where the request came from.
    #[must_use]
    pub fn client(&self) -> &'a Client {
        self.context.client
    }

    /// The context of the request.
    #[must_use]
    pub fn context(&self) -> RequestContext<'a> {
        self.context
    }
}
