//! The headers of an HTTP request, for its handler and the security provider.

use std::any::Any;

use actix_web::HttpRequest;
use actix_web::http::header::AUTHORIZATION;
use asyncsteps_futoin::message::Headers;

use crate::security::{Credentials, Refusal};

/// An HTTP request: that of a message, or the one that a connection began with.
pub(super) struct HttpHeaders(HttpRequest);

impl HttpHeaders {
    pub(super) fn new(http: &HttpRequest) -> Self {
        Self(http.clone())
    }

    /// The credentials of its header `Authorization: Basic`, if it has one.
    pub(super) fn credentials(&self) -> Option<Result<Credentials, Refusal>> {
        self.header(AUTHORIZATION.as_str()).and_then(Credentials::from_header)
    }
}

impl Headers for HttpHeaders {
    fn header(&self, name: &str) -> Option<&str> {
        self.0.headers().get(name).and_then(|value| value.to_str().ok())
    }

    fn headers(&self) -> Box<dyn Iterator<Item = (&str, &str)> + '_> {
        let text = self.0.headers().iter();
        Box::new(text.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?))))
    }

    fn transport(&self) -> Option<&dyn Any> {
        Some(&self.0)
    }
}
