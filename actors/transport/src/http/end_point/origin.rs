//! Checks of the page that a call comes from: a page of another site could call through the browser
//! of its visitor.
//!
//! A browser sends the name of the page's site with such a call (the Fetch standard, `Origin` and
//! `Sec-Fetch-Site`), and the page cannot change it. Other clients send neither header, and are
//! not affected.

use std::sync::Arc;

use http::HeaderName;
use http::header::{HOST, ORIGIN};

use super::super::head::RequestHead;
use super::cors::Cors;

/// How the page of a call is related to the site (the Fetch Metadata specification, §2.1).
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The sites whose pages may call, and the host names that requests may be for.
#[derive(Clone, Default)]
pub(in crate::http) struct Sites {
    pub(in crate::http) cors: Option<Arc<Cors>>,
    /// All unless set.
    pub(in crate::http) hosts: Option<Arc<[String]>>,
}

/// Why a request is refused with 403; the text for its client.
pub(super) type Refused = &'static str;

impl Sites {
    /// Checks a request before anything of it is read.
    ///
    /// An `Origin` must match the request's own host, or be one that CORS allows. Schemes are not
    /// compared, so that a proxy may do TLS; the proxy has to pass `Host` on.
    pub(super) fn check(&self, head: &RequestHead) -> Result<(), Refused> {
        let is_one = |hosts: &[String]| {
            authority(head)
                .is_some_and(|own| hosts.iter().any(|it| it.eq_ignore_ascii_case(own.host)))
        };
        if self.hosts.as_ref().is_some_and(|hosts| !is_one(hosts)) {
            return Err("Host is not allowed");
        }
        // a preflight runs nothing; the headers of its answer say what is allowed
        if head.method() == "OPTIONS" || self.is_allowed(head) {
            Ok(())
        } else {
            Err("Origin is not allowed")
        }
    }

    fn is_allowed(&self, head: &RequestHead) -> bool {
        if !head.has(&ORIGIN) {
            let is_other = |site: &str| {
                site.eq_ignore_ascii_case("cross-site") || site.eq_ignore_ascii_case("same-site")
            };
            return !head.values(&SEC_FETCH_SITE).any(is_other);
        }
        let mut origins = head.values(&ORIGIN);
        let (Some(origin), None) = (origins.next(), origins.next()) else { return false };
        let page = Authority::of_origin(origin);
        (page.is_some() && page == authority(head))
            || self.cors.as_ref().is_some_and(|cors| cors.allows(origin))
    }
}

/// A host with its port, unless that is the default of HTTP or HTTPS.
#[derive(Clone, Copy)]
struct Authority<'a> {
    host: &'a str,
    port: Option<&'a str>,
}

impl<'a> Authority<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if is_port(port) => (host, Some(port)),
            _ => (text, None),
        };
        let is_host = !host.is_empty() && !host.contains(['@', '/']);
        let port = port.filter(|port| !matches!(*port, "" | "80" | "443"));
        is_host.then_some(Self { host, port })
    }

    /// `None` for `null`, the origin of pages that hide their site.
    fn of_origin(origin: &'a str) -> Option<Self> {
        Self::parse(origin.split_once("://")?.1)
    }
}

impl PartialEq for Authority<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.host.eq_ignore_ascii_case(other.host) && self.port == other.port
    }
}

/// The host that a request is for: the authority of its target, else the header `Host`, of which
/// there is one (RFC 9112 §3.2).
fn authority(head: &RequestHead) -> Option<Authority<'_>> {
    head.authority().or_else(|| head.get(&HOST)).and_then(Authority::parse)
}
