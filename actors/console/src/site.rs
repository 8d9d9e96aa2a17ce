//! The site of a request, and of the page that it comes from.
//!
//! A page of another site can send requests through the browser of its visitor, although it cannot read
//! their answers. A browser says which page a request comes from (the Fetch standard, `Origin`; Fetch
//! Metadata §2.1, `Sec-Fetch-Site`), and the page cannot change it. Other clients send neither header.

use http::HeaderName;
use http::header::{HOST, ORIGIN};
use http::request::Parts;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The host that a request names, with its port.
pub(crate) fn host(request: &Parts) -> Option<&str> {
    let named = request.uri.authority().map(|authority| authority.as_str());
    named.or_else(|| request.headers.get(HOST)?.to_str().ok())
}

/// Whether a request comes from a page of its own site, or from no page. Schemes are not compared, so
/// that a proxy may do TLS.
pub(crate) fn is_own(request: &Parts) -> bool {
    let is_other = |site: &[u8]| {
        site.eq_ignore_ascii_case(b"cross-site") || site.eq_ignore_ascii_case(b"same-site")
    };
    if request.headers.get_all(SEC_FETCH_SITE).iter().any(|site| is_other(site.as_bytes())) {
        return false;
    }
    let own = host(request).map(without_default_port);
    let mut origins = request.headers.get_all(ORIGIN).iter();
    origins.all(|origin| {
        let page = origin.to_str().ok().and_then(|origin| Some(origin.split_once("://")?.1));
        let pair = page.map(without_default_port).zip(own);
        pair.is_some_and(|(page, own)| page.eq_ignore_ascii_case(own))
    })
}

/// A host with its port, unless that is the default of HTTP or HTTPS.
fn without_default_port(host: &str) -> &str {
    host.strip_suffix(":80").or_else(|| host.strip_suffix(":443")).unwrap_or(host)
}
