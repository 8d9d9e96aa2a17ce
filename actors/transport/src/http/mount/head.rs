//! The head of a request that an actix-web application took.

use std::net::SocketAddr;

use actix_web::HttpRequest;
use http::{HeaderValue, Version};

/// The head, in the types of actix-web, which has another version of those of `http`: a copy of a head would take
/// longer than all look-ups in it.
pub(in crate::http) struct MountedHead {
    request: HttpRequest,
    /// That of a client that cannot send the header.
    authorization: Option<HeaderValue>,
}

impl MountedHead {
    pub(super) fn new(http: &HttpRequest) -> Self {
        Self { request: http.clone(), authorization: None }
    }

    pub(in crate::http) fn detached<T: From<Self>>(&self, authorization: Option<HeaderValue>) -> T {
        Self { request: self.request.clone(), authorization }.into()
    }

    pub(in crate::http) fn request(&self) -> &HttpRequest {
        &self.request
    }

    pub(in crate::http) fn method(&self) -> &str {
        self.request.method().as_str()
    }

    pub(in crate::http) fn path(&self) -> &str {
        self.request.uri().path()
    }

    pub(in crate::http) fn query(&self) -> &str {
        self.request.query_string()
    }

    pub(in crate::http) fn authority(&self) -> Option<&str> {
        self.request.uri().authority().map(|it| it.as_str())
    }

    pub(in crate::http) fn version(&self) -> Version {
        type Theirs = actix_web::http::Version;
        match self.request.version() {
            Theirs::HTTP_09 => Version::HTTP_09,
            Theirs::HTTP_10 => Version::HTTP_10,
            Theirs::HTTP_2 => Version::HTTP_2,
            Theirs::HTTP_3 => Version::HTTP_3,
            _ => Version::HTTP_11,
        }
    }

    pub(in crate::http) fn peer(&self) -> Option<SocketAddr> {
        self.request.peer_addr()
    }

    pub(in crate::http) fn connection_data<T: 'static>(&self) -> Option<&T> {
        self.request.conn_data()
    }

    pub(in crate::http) fn is_secure(&self) -> bool {
        self.request.app_config().secure()
    }

    /// The values of a header, as far as they are text. To make a name of actix-web's type takes longer than a look at
    /// all names.
    pub(in crate::http) fn values<'a>(
        &'a self,
        name: &str,
    ) -> impl Iterator<Item = Option<&'a str>> {
        let fields = self.request.headers().iter().filter(move |(other, _)| other.as_str() == name);
        let own = self.own().filter(move |(other, _)| *other == name);
        fields
            .map(|(_, value)| value.to_str().ok())
            .chain(own.map(|(_, value)| value.to_str().ok()))
    }

    fn own(&self) -> impl Iterator<Item = (&'static str, &HeaderValue)> {
        self.authorization.iter().map(|value| ("authorization", value))
    }

    /// All headers that are text.
    pub(in crate::http) fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        let fields = self.request.headers().iter();
        let fields = fields.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        fields.chain(self.own().filter_map(|(name, value)| Some((name, value.to_str().ok()?))))
    }

    /// The names of all headers, each with the length of its value.
    pub(in crate::http) fn lengths(&self) -> impl Iterator<Item = (&str, usize)> {
        let fields =
            self.request.headers().iter().map(|(name, value)| (name.as_str(), value.len()));
        fields.chain(self.own().map(|(name, value)| (name, value.len())))
    }
}
