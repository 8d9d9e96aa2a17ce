//! The certificate that a server shows its clients.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Why a certificate cannot be used.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// A file cannot be read, or has no certificate or key in it.
    #[error("cannot read a PEM file")]
    Pem(#[from] pem::Error),
    /// The key does not fit the certificate.
    #[error("the certificate is refused")]
    Refused(#[from] rustls::Error),
}

asyncsteps_futoin::debug_as_report!(CertificateError);

/// TLS 1.2 and 1.3 with a certificate chain and its private key, two PEM files, for
/// [`Server::listen_rustls`](super::Server::listen_rustls). Clients need no certificate.
///
/// # Errors
/// [`CertificateError`] if a file cannot be read, or if the key does not fit the certificate.
pub fn tls_from_pem(chain: &Path, key: &Path) -> Result<ServerConfig, CertificateError> {
    let chain = CertificateDer::pem_file_iter(chain)?.collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_file(key)?;
    Ok(ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?)
}
