//! The connection to a collector over TLS.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use opentelemetry_http::hyper::HyperClient;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use rustls_native_certs::{load_certs_from_paths, load_native_certs};

use super::OtlpError;

/// A client that trusts the certificates in a file of PEM, or else those of the system.
pub(super) fn client(
    file: Option<&str>,
    timeout: Duration,
) -> Result<HyperClient<HttpsConnector<HttpConnector>>, OtlpError> {
    let found = match file {
        Some(file) => load_certs_from_paths(Some(Path::new(file)), None),
        None => load_native_certs(),
    };
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let errors: Vec<_> = found.errors.iter().map(ToString::to_string).collect();
        return Err(OtlpError::Certificates(errors.join("; ")));
    }
    let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let tls = tls.with_safe_default_protocol_versions();
    let tls = tls.map_err(|error| OtlpError::Certificates(error.to_string()))?;
    let tls = tls.with_root_certificates(roots).with_no_client_auth();
    let https = HttpsConnectorBuilder::new().with_tls_config(tls).https_only().enable_http1();
    Ok(HyperClient::new(https.build(), timeout, None))
}
