//! Connections, with TLS where the URL says so.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore, crypto};
use tokio::net::TcpStream;
use tower_service::Service;

use super::config::Config;
use super::error::HttpError;

/// A connection.
pub(super) type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;

type BoxError = Box<dyn Error + Send + Sync>;

/// Opens connections, each within a time limit that covers all handshakes.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    https: HttpsConnector<HttpConnector>,
    limit: Duration,
}

impl Connector {
    pub(super) fn new(config: &Config) -> Result<Self, HttpError> {
        let tls = match &config.tls {
            Some(tls) => tls.clone(),
            None => system_tls()?,
        };
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        let https = HttpsConnectorBuilder::new().with_tls_config(tls);
        let https = https.https_or_http().enable_http1().wrap_connector(http);
        Ok(Self { https, limit: config.connect_timeout })
    }
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.https.poll_ready(context)
    }

    fn call(&mut self, url: Uri) -> Self::Future {
        let connects = tokio::time::timeout(self.limit, self.https.call(url));
        Box::pin(async move {
            match connects.await {
                Ok(connected) => connected,
                Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
            }
        })
    }
}

/// TLS that trusts the certificates of the system. Without any, connections with TLS fail, and others work.
fn system_tls() -> Result<ClientConfig, HttpError> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "certificates of the system cannot be read");
    }
    roots.add_parsable_certificates(found.certs);
    let provider = Arc::new(crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let tls = tls.map_err(|error| HttpError::Tls(error.to_string()))?;
    Ok(tls.with_root_certificates(roots).with_no_client_auth())
}
