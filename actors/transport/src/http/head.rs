//! The head of an HTTP request, whichever server took it.

use std::any::Any;
use std::net::SocketAddr;
use std::rc::Rc;

use asyncsteps_futoin::message::Headers;
use http::header::{AUTHORIZATION, CONNECTION, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Version};

use super::mount::MountedHead;
use asyncsteps_executor::security::{Credentials, Refusal};
use asyncsteps_server::{ConnectionInfo, FieldsSummary, copy_uri};

/// The head of an HTTP request: of a message, or of the upgrade to a WebSocket.
///
/// Security providers and functions get it as the request in the type of its transport
/// ([`RequestContext::transport`](asyncsteps_executor::security::RequestContext::transport)). It has what
/// [`Server::on_connect`](super::Server::on_connect) returned for the connection, such as the certificate that a
/// client showed to TLS:
///
/// ```
/// use asyncsteps_executor::security::RequestContext;
/// use asyncsteps_transport::http::RequestHead;
///
/// struct PeerCertificate(Vec<u8>); // from `on_connect`
///
/// fn certificate<'a>(request: &RequestContext<'a>) -> Option<&'a PeerCertificate> {
///     request.transport::<RequestHead>()?.connection_data::<PeerCertificate>()
/// }
/// ```
#[derive(derive_more::Debug)]
#[debug("RequestHead {{ method: {:?}, path: {:?}, .. }}", self.method(), self.path())]
pub struct RequestHead {
    inner: Inner,
    fields: FieldsSummary,
}

#[cfg_attr(
    not(feature = "actix-web"),
    expect(clippy::large_enum_variant, reason = "it is behind an Rc, and all are the large one")
)]
enum Inner {
    /// From a [`Server`](super::Server).
    Own { parts: Parts, connection: Rc<ConnectionInfo> },
    /// From an application that mounts the [`Service`](super::Service).
    Mounted(MountedHead),
}

impl RequestHead {
    pub(super) fn own(parts: Parts, fields: FieldsSummary, connection: Rc<ConnectionInfo>) -> Self {
        Self { inner: Inner::Own { parts, connection }, fields }
    }

    #[cfg(test)]
    pub(crate) fn of_test(request: http::Request<()>) -> Self {
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let connection = Rc::new(ConnectionInfo { peer, is_secure: false, data: None });
        let parts = request.into_parts().0;
        let fields = FieldsSummary::of(&parts.headers);
        Self::own(parts, fields, connection)
    }

    /// A copy that is kept for as long as its connection is: its texts have memory of their own, and do
    /// not hold the buffer that the request was read into. It has this `Authorization`, where there is none.
    pub(crate) fn detached(&self, authorization: Option<HeaderValue>) -> Self {
        match &self.inner {
            Inner::Own { parts, connection } => {
                let mut parts = copy(parts);
                parts.headers.extend(authorization.map(|value| (AUTHORIZATION, value)));
                let fields = FieldsSummary::of(&parts.headers);
                Self::own(parts, fields, Rc::clone(connection))
            }
            Inner::Mounted(head) => head.detached(authorization),
        }
    }

    /// The method, such as `POST`.
    #[must_use]
    pub fn method(&self) -> &str {
        match &self.inner {
            Inner::Own { parts, .. } => parts.method.as_str(),
            Inner::Mounted(head) => head.method(),
        }
    }

    /// The path of the target, as the client sent it.
    #[must_use]
    pub fn path(&self) -> &str {
        match &self.inner {
            Inner::Own { parts, .. } => parts.uri.path(),
            Inner::Mounted(head) => head.path(),
        }
    }

    /// The query of the target without the question mark; empty if there is none.
    #[must_use]
    pub fn query(&self) -> &str {
        match &self.inner {
            Inner::Own { parts, .. } => parts.uri.query().unwrap_or_default(),
            Inner::Mounted(head) => head.query(),
        }
    }

    /// The address of the other end of the connection, which may be a proxy.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        match &self.inner {
            Inner::Own { connection, .. } => Some(connection.peer),
            Inner::Mounted(head) => head.peer(),
        }
    }

    /// The application's data of the connection: the value that
    /// [`Server::on_connect`](super::Server::on_connect) returned for it, or under an
    /// `actix_web::HttpServer` the value that its `on_connect` inserted.
    #[must_use]
    pub fn connection_data<T: 'static>(&self) -> Option<&T> {
        match &self.inner {
            Inner::Own { connection, .. } => connection.data.as_deref()?.downcast_ref(),
            Inner::Mounted(head) => head.connection_data(),
        }
    }

    /// The parts of the request, if a [`Server`](super::Server) took it.
    #[must_use]
    pub fn parts(&self) -> Option<&Parts> {
        match &self.inner {
            Inner::Own { parts, .. } => Some(parts),
            Inner::Mounted(_) => None,
        }
    }

    /// The request as actix-web has it, if an actix-web application took it: with what middlewares
    /// put into its extensions.
    #[cfg(feature = "actix-web")]
    #[must_use]
    pub fn actix_web(&self) -> Option<&actix_web::HttpRequest> {
        match &self.inner {
            Inner::Own { .. } => None,
            Inner::Mounted(head) => Some(head.request()),
        }
    }

    /// The credentials of the header `Authorization: Basic`, if it has one.
    pub(crate) fn credentials(&self) -> Option<Result<Credentials, Refusal>> {
        self.get(&AUTHORIZATION).and_then(Credentials::from_header)
    }

    /// The value of a header, if it is text.
    pub(crate) fn get(&self, name: &HeaderName) -> Option<&str> {
        if !self.fields.may_have(name.as_str()) {
            return None;
        }
        match &self.inner {
            Inner::Own { parts, .. } => parts.headers.get(name)?.to_str().ok(),
            Inner::Mounted(head) => head.values(name.as_str()).next()?,
        }
    }

    /// The values of a header that are text.
    pub(crate) fn values(&self, name: &HeaderName) -> impl Iterator<Item = &str> {
        let (own, mounted) = match &self.inner {
            _ if !self.fields.may_have(name.as_str()) => (None, None),
            Inner::Own { parts, .. } => (Some(parts.headers.get_all(name)), None),
            Inner::Mounted(head) => (None, Some(head.values(name.as_str()))),
        };
        let own = own.into_iter().flatten().filter_map(|value| value.to_str().ok());
        own.chain(mounted.into_iter().flatten().flatten())
    }

    /// Whether it has a header, of any value.
    pub(super) fn has(&self, name: &HeaderName) -> bool {
        self.fields.may_have(name.as_str())
            && match &self.inner {
                Inner::Own { parts, .. } => parts.headers.contains_key(name),
                Inner::Mounted(head) => head.values(name.as_str()).next().is_some(),
            }
    }

    /// The authority of an absolute target (RFC 9112 §3.2.2, RFC 9113 §8.3.1).
    pub(super) fn authority(&self) -> Option<&str> {
        match &self.inner {
            Inner::Own { parts, .. } => parts.uri.authority().map(|it| it.as_str()),
            Inner::Mounted(head) => head.authority(),
        }
    }

    /// Whether the connection itself is secure.
    pub(super) fn is_secure(&self) -> bool {
        match &self.inner {
            Inner::Own { connection, .. } => connection.is_secure,
            Inner::Mounted(head) => head.is_secure(),
        }
    }

    /// Whether its connection can be asked to close after the answer: not in HTTP/2, where many
    /// requests share it.
    pub(super) fn has_own_connection(&self) -> bool {
        match &self.inner {
            Inner::Own { parts, .. } => parts.version <= Version::HTTP_11,
            Inner::Mounted(head) => head.version() <= Version::HTTP_11,
        }
    }

    /// Whether it asks for another protocol, which in HTTP/1.0 is ignored (RFC 9110 §7.8).
    pub(super) fn has_upgrade(&self) -> bool {
        let is_http10 = match &self.inner {
            Inner::Own { parts, .. } => parts.version < Version::HTTP_11,
            Inner::Mounted(head) => head.version() < Version::HTTP_11,
        };
        !is_http10 && self.has(&UPGRADE)
    }

    /// Whether the client offers another protocol for the rest of its connection.
    pub(crate) fn offers_upgrade(&self) -> bool {
        let is_upgrade = |option: &str| option.trim().eq_ignore_ascii_case("upgrade");
        self.values(&CONNECTION).any(|options| options.split(',').any(is_upgrade))
    }

    /// Bytes that it keeps in memory.
    pub(super) fn size(&self) -> usize {
        self.fields.size(self.path(), self.query())
    }
}

impl From<MountedHead> for RequestHead {
    fn from(head: MountedHead) -> Self {
        let fields = FieldsSummary::of_fields(head.lengths());
        Self { inner: Inner::Mounted(head), fields }
    }
}

impl Headers for RequestHead {
    fn header(&self, name: &str) -> Option<&str> {
        if !self.fields.may_have(name) {
            return None;
        }
        match &self.inner {
            Inner::Own { parts, .. } => parts.headers.get(name)?.to_str().ok(),
            Inner::Mounted(head) => head.values(name).next()?,
        }
    }

    fn has_header(&self, name: &str) -> bool {
        self.fields.may_have(name)
            && match &self.inner {
                Inner::Own { parts, .. } => parts.headers.contains_key(name),
                Inner::Mounted(head) => head.values(name).next().is_some(),
            }
    }

    fn is_repeated(&self, name: &str) -> bool {
        self.fields.may_have(name)
            && match &self.inner {
                Inner::Own { parts, .. } => parts.headers.get_all(name).iter().nth(1).is_some(),
                Inner::Mounted(head) => head.values(name).nth(1).is_some(),
            }
    }

    fn headers(&self) -> Box<dyn Iterator<Item = (&str, &str)> + '_> {
        match &self.inner {
            Inner::Own { parts, .. } => {
                let all = parts.headers.iter();
                Box::new(
                    all.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?))),
                )
            }
            Inner::Mounted(head) => Box::new(head.fields()),
        }
    }

    fn transport(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

/// The same parts in memory of their own.
fn copy(parts: &Parts) -> Parts {
    let mut headers = HeaderMap::with_capacity(parts.headers.len());
    for (name, value) in &parts.headers {
        // a copy of a valid name or value is valid
        let name = HeaderName::from_bytes(name.as_str().as_bytes());
        if let (Ok(name), Ok(mut copy)) = (name, HeaderValue::from_bytes(value.as_bytes())) {
            copy.set_sensitive(value.is_sensitive());
            headers.append(name, copy);
        }
    }
    let (mut copied, ()) = http::Request::new(()).into_parts();
    copied.method = parts.method.clone();
    copied.uri = copy_uri(&parts.uri).unwrap_or_default();
    copied.version = parts.version;
    copied.headers = headers;
    copied
}
