//! URLs of services (FTN7 §2.1.3).

use hyper::Uri;

use super::error::HttpError;

/// Where a service is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServiceUrl {
    pub(super) kind: UrlTransport,
    /// Nothing on the way can read or change a message.
    pub(super) is_secure: bool,
    /// The URL with `http` or `https`.
    pub(super) http: Uri,
}

/// The transport of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UrlTransport {
    Http,
    WebSocket,
}

impl ServiceUrl {
    pub(super) fn parse(text: &str) -> Result<Self, HttpError> {
        let wrong = |why: String| HttpError::Url { url: without_password(text), why };
        let forced = text.strip_prefix("secure+");
        let uri: Uri = forced.unwrap_or(text).parse().map_err(|why| wrong(format!("{why}")))?;
        let (kind, has_tls) = match uri.scheme_str() {
            Some("http") => (UrlTransport::Http, false),
            Some("https") => (UrlTransport::Http, true),
            Some("ws") => (UrlTransport::WebSocket, false),
            Some("wss") => (UrlTransport::WebSocket, true),
            _ => return Err(wrong("it begins with http://, https://, ws:// or wss://".to_owned())),
        };
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(wrong("credentials belong into Remote::password".to_owned()));
        }
        let mut parts = uri.into_parts();
        let scheme = if has_tls { "https" } else { "http" };
        parts.scheme = Some(scheme.parse().map_err(|why| wrong(format!("{why}")))?);
        let http = Uri::from_parts(parts).map_err(|why| wrong(format!("{why}")))?;
        Ok(Self { kind, is_secure: has_tls || forced.is_some(), http })
    }

    /// The URL with `ws` or `wss`.
    pub(super) fn websocket(&self) -> String {
        // `http` and `https` begin alike
        format!("ws{}", self.http.to_string().trim_start_matches("http"))
    }
}

/// The URL as it may be in a log.
fn without_password(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://***@{host}"),
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_transport_and_security() {
        for (text, kind, is_secure, http, websocket) in [
            ("http://a/ftn/", UrlTransport::Http, false, "http://a/ftn/", "ws://a/ftn/"),
            ("https://a:1", UrlTransport::Http, true, "https://a:1/", "wss://a:1/"),
            (
                "ws://[::1]:8/x",
                UrlTransport::WebSocket,
                false,
                "http://[::1]:8/x",
                "ws://[::1]:8/x",
            ),
            ("wss://a/?b=c", UrlTransport::WebSocket, true, "https://a/?b=c", "wss://a/?b=c"),
            ("secure+ws://a/", UrlTransport::WebSocket, true, "http://a/", "ws://a/"),
        ] {
            let url = ServiceUrl::parse(text).expect(text);
            assert_eq!((url.kind, url.is_secure, &*url.http.to_string()), (kind, is_secure, http));
            assert_eq!(url.websocket(), websocket);
        }
    }

    #[test]
    fn other_urls_are_refused_without_their_passwords() {
        for wrong in ["", "a", "/ftn", "ftp://a/", "unix://eot/a", "http://", "http://a b/"] {
            let error = ServiceUrl::parse(wrong).expect_err(wrong);
            assert!(error.to_string().contains("is no URL of a service"), "{error}");
        }
        let error = ServiceUrl::parse("http://u:secret@a/").expect_err("it has credentials");
        let expected = "\"http://***@a/\" is no URL of a service: credentials belong into \
            Remote::password";
        assert_eq!(error.to_string(), expected);
    }
}
