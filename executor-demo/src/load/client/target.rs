//! Where a server is.

use std::str::FromStr;

use anyhow::{Context as _, bail};
use hyper::Uri;
use hyper::http::uri::Authority;
use tokio::net::TcpStream;

/// How messages get to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::load) enum Scheme {
    Http,
    WebSocket,
}

/// The end point of a server.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(super) scheme: Scheme,
    pub(super) authority: Authority,
    pub(super) path: String,
}

impl FromStr for Target {
    type Err = anyhow::Error;

    fn from_str(url: &str) -> anyhow::Result<Self> {
        let uri: Uri = url.parse().with_context(|| format!("{url} is no URL"))?;
        let scheme = match uri.scheme_str() {
            Some("http") => Scheme::Http,
            Some("ws") => Scheme::WebSocket,
            Some(other) => bail!("{url}: {other} is not supported, only http and ws are"),
            None => bail!("{url}: begin it with http:// or ws://"),
        };
        let authority = uri.authority().cloned().with_context(|| format!("{url} names no host"))?;
        Ok(Self { scheme, authority, path: uri.path().to_owned() })
    }
}

impl Target {
    /// Opens a connection.
    pub(super) async fn open(&self) -> anyhow::Result<TcpStream> {
        let address = (self.authority.host(), self.authority.port_u16().unwrap_or(80));
        let stream = TcpStream::connect(address).await;
        let stream = stream.with_context(|| format!("cannot connect to {}", self.authority))?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_how_and_where() {
        let target: Target = "ws://localhost:8080/ftn/".parse().unwrap();
        assert_eq!(target.scheme, Scheme::WebSocket);
        assert_eq!((target.authority.as_str(), &*target.path), ("localhost:8080", "/ftn/"));
        for (wrong, why) in [
            ("https://a.example/ftn/", "https is not supported"),
            ("127.0.0.1:8080", "begin it with http://"),
            ("/ftn/", "begin it with http://"),
            ("http://", "is no URL"),
        ] {
            let error = format!("{:#}", wrong.parse::<Target>().expect_err(wrong));
            assert!(error.contains(why), "{error}");
        }
    }
}
