//! Who may see the console.

use std::net::{IpAddr, SocketAddr};

use http::header::AUTHORIZATION;
use http::request::Parts;
use subtle::ConstantTimeEq as _;

use crate::site;

/// Headers that proxies add to requests that they forward.
const OF_PROXIES: [&str; 10] = [
    "forwarded",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-forwarded-server",
    "x-real-ip",
    "x-client-ip",
    "cf-connecting-ip",
    "true-client-ip",
];

/// Who may see the console.
#[derive(derive_more::Debug)]
pub(crate) enum Access {
    /// Peers on this machine.
    Loopback,
    /// Those who have the token.
    #[debug("Token")]
    Token(String),
}

/// Why a request is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// It does not come from this machine, as far as can be seen.
    NotLoopback,
    /// It has no token, or a wrong one.
    NoToken,
    /// It comes from a page of another site.
    OtherSite,
}

impl Access {
    /// Whether a request may have the page itself, which shows nothing of the service.
    pub(crate) fn to_page(&self, request: &Parts) -> Result<(), Denied> {
        match self {
            Self::Loopback if !is_local(request) => Err(Denied::NotLoopback),
            Self::Loopback | Self::Token(_) => Ok(()),
        }
    }

    /// Whether a request may know what runs, and end it.
    pub(crate) fn to_data(&self, request: &Parts) -> Result<(), Denied> {
        self.to_page(request)?;
        match self {
            _ if !site::is_own(request) => Err(Denied::OtherSite),
            Self::Token(token) if !has_token(request, token) => Err(Denied::NoToken),
            Self::Loopback | Self::Token(_) => Ok(()),
        }
    }
}

/// Whether a request comes from this machine, and from a page that was opened under a name of it: any
/// other name may be one that its owner points at the loopback, so that a foreign page reads ours.
fn is_local(request: &Parts) -> bool {
    let peer = request.extensions.get::<SocketAddr>();
    let is_forwarded = OF_PROXIES.iter().any(|name| request.headers.contains_key(*name));
    peer.is_some_and(|peer| peer.ip().to_canonical().is_loopback())
        && !is_forwarded
        && site::host(request).is_some_and(is_loopback_name)
}

fn is_loopback_name(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            // RFC 3986 §3.2.3: a port may be empty
            if !port.is_empty() && port.parse::<u16>().is_err() {
                return false;
            }
            name
        }
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn has_token(request: &Parts, token: &str) -> bool {
    let credentials = request.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    // RFC 9110 §11.1: the name of a scheme has no case
    let given = credentials
        .and_then(|it| it.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("Bearer"))
        .map_or("", |(_, given)| given);
    // the time reveals how long the token is, and nothing else of it
    !token.is_empty() && bool::from(given.as_bytes().ct_eq(token.as_bytes()))
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn request(peer: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::get("/console/live");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let peer: SocketAddr = peer.parse().expect("an address");
        request.extension(peer).body(()).expect("a request").into_parts().0
    }

    #[test]
    fn only_pages_of_this_machine_are_local() {
        let local = [
            ("127.0.0.1:4000", "localhost:8080"),
            ("127.0.0.1:4000", "127.0.0.1"),
            ("[::1]:4000", "[::1]:8080"),
            ("[::ffff:127.0.0.1]:4000", "LOCALHOST"),
        ];
        for (peer, host) in local {
            assert_eq!(
                Access::Loopback.to_data(&request(peer, &[("host", host)])),
                Ok(()),
                "{host}"
            );
        }
        let foreign = [
            ("10.0.0.7:4000", "localhost"),
            ("127.0.0.1:4000", "localhost.example.com"),
            ("127.0.0.1:4000", "10.0.0.7:8080"),
            ("127.0.0.1:4000", "rebound.example.com:8080"),
            ("127.0.0.1:4000", "localhost:99999999"),
            ("127.0.0.1:4000", "[::1]:65536"),
            ("127.0.0.1:4000", "localhost:+80"),
        ];
        for (peer, host) in foreign {
            let request = request(peer, &[("host", host)]);
            assert_eq!(Access::Loopback.to_page(&request), Err(Denied::NotLoopback), "{host}");
        }
        for header in [
            "Forwarded",
            "Via",
            "X-Forwarded-For",
            "X-Forwarded-Host",
            "X-Forwarded-Proto",
            "X-Forwarded-Server",
            "X-Real-IP",
            "X-Client-IP",
            "CF-Connecting-IP",
            "True-Client-IP",
        ] {
            let proxied = request("127.0.0.1:4000", &[("host", "localhost"), (header, "it")]);
            assert_eq!(Access::Loopback.to_data(&proxied), Err(Denied::NotLoopback), "{header}");
        }
        assert_eq!(
            Access::Loopback.to_data(&request("127.0.0.1:4000", &[])),
            Err(Denied::NotLoopback)
        );
    }

    #[test]
    fn with_a_token_only_the_token_counts() {
        let access = Access::Token("a-long-secret".to_owned());
        for right in ["Bearer a-long-secret", "bearer a-long-secret", "BEARER a-long-secret"] {
            let request = request("10.0.0.7:4000", &[("authorization", right)]);
            assert_eq!(access.to_data(&request), Ok(()), "{right}");
        }
        for wrong in
            ["Bearer a-long-secre", "Bearer a-long-secret ", "Basic a-long-secret", "Bearer", ""]
        {
            let request = request("127.0.0.1:4000", &[("authorization", wrong)]);
            assert_eq!(access.to_data(&request), Err(Denied::NoToken), "{wrong}");
            assert_eq!(access.to_page(&request), Ok(()));
        }
        let nothing = Access::Token(String::new());
        let empty = request("127.0.0.1:4000", &[("authorization", "Bearer ")]);
        assert_eq!(nothing.to_data(&empty), Err(Denied::NoToken));
    }

    #[test]
    fn pages_of_other_sites_get_no_data() {
        let host = ("host", "localhost:8080");
        let token = ("authorization", "Bearer a-long-secret");
        for (headers, is_own) in [
            (&[("origin", "http://localhost:8080")][..], true),
            (&[("origin", "https://LOCALHOST:8080")], true),
            (&[("sec-fetch-site", "same-origin")], true),
            (&[("sec-fetch-site", "none")], true),
            (&[("origin", "http://localhost:8081")], false),
            (&[("origin", "http://localhost")], false),
            (&[("origin", "https://example.com")], false),
            (&[("origin", "https://example.com/localhost:8080")], false),
            (&[("origin", "http://example.com@localhost:8080")], false),
            (&[("origin", "localhost:8080")], false),
            (&[("origin", "null")], false),
            (&[("origin", "")], false),
            (&[("origin", "http://localhost:8080"), ("origin", "https://example.com")], false),
            (&[("sec-fetch-site", "cross-site")], false),
            (&[("sec-fetch-site", "Same-Site")], false),
            (&[("origin", "http://localhost:8080"), ("sec-fetch-site", "cross-site")], false),
        ] {
            let request = request("127.0.0.1:4000", &[&[host, token], headers].concat());
            let expected = if is_own { Ok(()) } else { Err(Denied::OtherSite) };
            for access in [Access::Loopback, Access::Token("a-long-secret".to_owned())] {
                assert_eq!(access.to_data(&request), expected, "{access:?}: {headers:?}");
                // a link of another site may lead to the page
                assert_eq!(access.to_page(&request), Ok(()), "{access:?}: {headers:?}");
            }
        }
    }
}
