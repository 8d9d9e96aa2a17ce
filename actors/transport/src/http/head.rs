//! The head of an HTTP request, whichever server took it.

use std::any::Any;
use std::net::SocketAddr;
use std::rc::Rc;

use actix_web::HttpRequest;
use asyncsteps_futoin::message::Headers;
use http::header::{AUTHORIZATION, CONNECTION, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Uri, Version};

use asyncsteps_executor::security::{Credentials, Refusal};

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
pub struct RequestHead(Inner);

#[expect(clippy::large_enum_variant, reason = "it is behind an Rc, and most are the large one")]
enum Inner {
    /// From a [`Server`](super::Server).
    Own { parts: Parts, connection: Rc<ConnectionInfo> },
    /// From an application that mounts the [`Service`](super::Service).
    Mounted(HttpRequest),
}

/// The facts of a connection of a [`Server`](super::Server).
pub(super) struct ConnectionInfo {
    pub(super) peer: SocketAddr,
    pub(super) is_secure: bool,
    /// The application's data of the connection.
    pub(super) data: Option<Box<dyn Any>>,
}

impl RequestHead {
    pub(super) fn own(parts: Parts, connection: Rc<ConnectionInfo>) -> Self {
        Self(Inner::Own { parts, connection })
    }

    pub(crate) fn mounted(http: &HttpRequest) -> Self {
        Self(Inner::Mounted(http.clone()))
    }

    /// A copy that is kept for as long as its connection is: its texts have memory of their own, and do
    /// not hold the buffer that the request was read into.
    pub(crate) fn detached(&self) -> Self {
        Self(match &self.0 {
            Inner::Own { parts, connection } => {
                Inner::Own { parts: copy(parts), connection: Rc::clone(connection) }
            }
            Inner::Mounted(http) => Inner::Mounted(http.clone()),
        })
    }

    /// The method, such as `POST`.
    #[must_use]
    pub fn method(&self) -> &str {
        match &self.0 {
            Inner::Own { parts, .. } => parts.method.as_str(),
            Inner::Mounted(http) => http.method().as_str(),
        }
    }

    /// The path of the target, as the client sent it.
    #[must_use]
    pub fn path(&self) -> &str {
        match &self.0 {
            Inner::Own { parts, .. } => parts.uri.path(),
            Inner::Mounted(http) => http.uri().path(),
        }
    }

    /// The query of the target without the question mark; empty if there is none.
    #[must_use]
    pub fn query(&self) -> &str {
        match &self.0 {
            Inner::Own { parts, .. } => parts.uri.query().unwrap_or_default(),
            Inner::Mounted(http) => http.query_string(),
        }
    }

    /// The address of the other end of the connection, which may be a proxy.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        match &self.0 {
            Inner::Own { connection, .. } => Some(connection.peer),
            Inner::Mounted(http) => http.peer_addr(),
        }
    }

    /// The application's data of the connection: the value that
    /// [`Server::on_connect`](super::Server::on_connect) returned for it, or under an
    /// `actix_web::HttpServer` the value that its `on_connect` inserted.
    #[must_use]
    pub fn connection_data<T: 'static>(&self) -> Option<&T> {
        match &self.0 {
            Inner::Own { connection, .. } => connection.data.as_deref()?.downcast_ref(),
            Inner::Mounted(http) => http.conn_data(),
        }
    }

    /// The parts of the request, if a [`Server`](super::Server) took it.
    #[must_use]
    pub fn parts(&self) -> Option<&Parts> {
        match &self.0 {
            Inner::Own { parts, .. } => Some(parts),
            Inner::Mounted(_) => None,
        }
    }

    /// The request as actix-web has it, if an actix-web application took it: with what middlewares
    /// put into its extensions.
    #[must_use]
    pub fn actix_web(&self) -> Option<&HttpRequest> {
        match &self.0 {
            Inner::Own { .. } => None,
            Inner::Mounted(http) => Some(http),
        }
    }

    /// The credentials of the header `Authorization: Basic`, if it has one.
    pub(crate) fn credentials(&self) -> Option<Result<Credentials, Refusal>> {
        self.get(&AUTHORIZATION).and_then(Credentials::from_header)
    }

    /// The value of a header, if it is text.
    pub(crate) fn get(&self, name: &HeaderName) -> Option<&str> {
        match &self.0 {
            Inner::Own { parts, .. } => parts.headers.get(name)?.to_str().ok(),
            Inner::Mounted(http) => mounted_values(http, name.as_str()).next()?.to_str().ok(),
        }
    }

    /// The values of a header that are text.
    pub(crate) fn values(&self, name: &HeaderName) -> impl Iterator<Item = &str> {
        let (own, mounted) = match &self.0 {
            Inner::Own { parts, .. } => (Some(parts.headers.get_all(name)), None),
            Inner::Mounted(http) => (None, Some(mounted_values(http, name.as_str()))),
        };
        let own = own.into_iter().flatten().filter_map(|value| value.to_str().ok());
        own.chain(mounted.into_iter().flatten().filter_map(|value| value.to_str().ok()))
    }

    /// Whether it has a header, of any value.
    pub(super) fn has(&self, name: &HeaderName) -> bool {
        match &self.0 {
            Inner::Own { parts, .. } => parts.headers.contains_key(name),
            Inner::Mounted(http) => mounted_values(http, name.as_str()).next().is_some(),
        }
    }

    /// The authority of an absolute target (RFC 9112 §3.2.2, RFC 9113 §8.3.1).
    pub(super) fn authority(&self) -> Option<&str> {
        match &self.0 {
            Inner::Own { parts, .. } => parts.uri.authority().map(|it| it.as_str()),
            Inner::Mounted(http) => http.uri().authority().map(|it| it.as_str()),
        }
    }

    /// Whether the connection itself is secure.
    pub(super) fn is_secure(&self) -> bool {
        match &self.0 {
            Inner::Own { connection, .. } => connection.is_secure,
            Inner::Mounted(http) => http.app_config().secure(),
        }
    }

    /// Whether its connection can be asked to close after the answer: not in HTTP/2, where many
    /// requests share it.
    pub(super) fn has_own_connection(&self) -> bool {
        match &self.0 {
            Inner::Own { parts, .. } => parts.version <= Version::HTTP_11,
            Inner::Mounted(http) => http.version() <= actix_web::http::Version::HTTP_11,
        }
    }

    /// Whether it asks for another protocol, which in HTTP/1.0 is ignored (RFC 9110 §7.8).
    pub(super) fn has_upgrade(&self) -> bool {
        let is_http10 = match &self.0 {
            Inner::Own { parts, .. } => parts.version < Version::HTTP_11,
            Inner::Mounted(http) => http.version() < actix_web::http::Version::HTTP_11,
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
        let http = match &self.0 {
            Inner::Own { parts, .. } => return size_of_head(&parts.headers, &parts.uri),
            Inner::Mounted(http) => http,
        };
        let fields = http.headers().iter();
        let fields = fields.map(|(name, value)| FIELD + name.as_str().len() + value.len());
        fields.sum::<usize>() + self.path().len() + self.query().len()
    }
}

impl Headers for RequestHead {
    fn header(&self, name: &str) -> Option<&str> {
        match &self.0 {
            Inner::Own { parts, .. } => parts.headers.get(name)?.to_str().ok(),
            Inner::Mounted(http) => mounted_values(http, name).next()?.to_str().ok(),
        }
    }

    fn has_header(&self, name: &str) -> bool {
        match &self.0 {
            Inner::Own { parts, .. } => parts.headers.contains_key(name),
            Inner::Mounted(http) => mounted_values(http, name).next().is_some(),
        }
    }

    fn headers(&self) -> Box<dyn Iterator<Item = (&str, &str)> + '_> {
        match &self.0 {
            Inner::Own { parts, .. } => {
                let all = parts.headers.iter();
                Box::new(
                    all.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?))),
                )
            }
            Inner::Mounted(http) => {
                let all = http.headers().iter();
                Box::new(
                    all.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?))),
                )
            }
        }
    }

    fn transport(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

/// The values of a header that actix-web has: it has another version of the types, and to make one of its names of
/// ours takes longer than a look at all of them.
fn mounted_values<'a, 'n>(
    http: &'a HttpRequest,
    name: &'n str,
) -> impl Iterator<Item = &'a actix_web::http::header::HeaderValue> + use<'a, 'n> {
    http.headers().iter().filter(move |(other, _)| other.as_str() == name).map(|(_, value)| value)
}

/// Bytes of a field in addition to its name and value: its place in a map, which has free ones.
const FIELD: usize = 112;

/// A head of which more than so much is text lies in a buffer that has doubled as it grew.
const GROWN: usize = 8 << 10;

/// Bytes that a head keeps in memory.
pub(super) fn size_of_head(headers: &HeaderMap, uri: &Uri) -> usize {
    let fields = headers.iter().map(|(name, value)| name.as_str().len() + value.len());
    let target = uri.path().len() + uri.query().map_or(0, str::len);
    let text = fields.sum::<usize>() + target;
    let buffer = if text > GROWN { 2 * text } else { text };
    buffer + headers.len() * FIELD
}

/// The same target in memory of its own.
pub(super) fn copy_uri(uri: &Uri) -> Option<Uri> {
    uri.to_string().parse().ok()
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
