//! TLS, as far as the options say.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{VerifierBuilderError, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::libpq::{LibpqOptions, Verify};

/// Why TLS cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read, or has no certificate or key in it.
    #[error("the PEM file {0} cannot be read")]
    Pem(String, #[source] pem::Error),
    /// A certificate or a key cannot be used.
    #[error("a certificate cannot be used")]
    Refused(#[from] Error),
    /// There is no authority.
    #[error("there are no certificates of authorities")]
    NoAuthority(#[from] VerifierBuilderError),
}

impl LibpqOptions {
    /// What makes TLS of a connection, with the files as they are now.
    pub(crate) fn tls(&self) -> Result<MakeRustlsConnect, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let (signers, has_name) = match self.sslrootcert.as_deref() {
            Some(file) if file != Path::new("system") => {
                (Some(certificates(file)?), self.verify == Verify::Name)
            }
            None if self.verify == Verify::Nothing => (None, false),
            // anyone has a certificate by one of these
            _ => (Some(rustls_native_certs::load_native_certs().certs), true),
        };
        let authorities = signers.map(|certificates| {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(certificates);
            let provider = Arc::clone(&provider);
            WebPkiServerVerifier::builder_with_provider(roots.into(), provider).build()
        });
        let authorities = authorities.transpose()?;
        let verifier = Verifier { authorities, has_name, provider: Arc::clone(&provider) };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let config = match &self.sslcert {
            None => config.with_no_client_auth(),
            Some(file) => {
                let key = self.sslkey.as_ref().unwrap_or(file);
                let read = PrivateKeyDer::from_pem_file(key).map_err(|error| pem(key, error))?;
                config.with_client_auth_cert(certificates(file)?, read)?
            }
        };
        Ok(MakeRustlsConnect::new(config))
    }
}

fn pem(file: &Path, error: pem::Error) -> TlsError {
    TlsError::Pem(file.display().to_string(), error)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    read.map_err(|error| pem(file, error))
}

/// Looks at the certificate of a server.
#[derive(Debug)]
struct Verifier {
    /// Who signs those that are accepted; all are if there is none.
    authorities: Option<Arc<WebPkiServerVerifier>>,
    /// It has to have the name of the host.
    has_name: bool,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        use CertificateError::{NotValidForName, NotValidForNameContext};

        let Some(authorities) = &self.authorities else {
            return Ok(ServerCertVerified::assertion());
        };
        // the name is looked at last
        match authorities.verify_server_cert(certificate, others, name, ocsp, now) {
            Err(Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. }))
                if !self.has_name =>
            {
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        // certificates of the first version, which PostgreSQL's manual makes, cannot be read here; and without an authority
        // it is not known whose key it is
        self.authorities.as_ref().map_or_else(
            || Ok(HandshakeSignatureValid::assertion()),
            |it| it.verify_tls12_signature(message, certificate, signed),
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.as_ref().map_or_else(
            || Ok(HandshakeSignatureValid::assertion()),
            |it| it.verify_tls13_signature(message, certificate, signed),
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
