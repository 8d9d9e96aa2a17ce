//! The certificate that a server shows its clients.

use std::error::Error as _;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::time::Instant;

/// How often the files are looked at, at the most: at a handshake.
const INTERVAL: Duration = Duration::from_secs(1);

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

/// As `main` shows an error that it returns: with its causes.
impl fmt::Debug for CertificateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        let causes = std::iter::successors(self.source(), |&cause| cause.source());
        causes.into_iter().try_for_each(|cause| write!(f, ": {cause}"))
    }
}

/// TLS 1.2 and 1.3 with a certificate chain and its private key, two PEM files, for
/// [`Server::listen_rustls`](super::Server::listen_rustls). Clients need no certificate.
///
/// The files are read again when they change, so that a certificate is renewed without a restart: a handshake looks
/// at them if the last look was more than a second ago. A pair that cannot be used, such as a new chain whose key is
/// still to come, is logged, and the one before stays. Connections keep the certificate that they began with.
///
/// # Errors
/// [`CertificateError`] if a file cannot be read, or if the key does not fit the certificate.
pub fn tls_from_pem(chain: &Path, key: &Path) -> Result<ServerConfig, CertificateError> {
    let provider = Arc::new(ring::default_provider());
    let files = PemFiles { chain: chain.into(), key: key.into(), provider: Arc::clone(&provider) };
    let renewed = RenewedKey::new(files)?;
    Ok(ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(renewed)))
}

/// A certificate chain and its private key.
#[derive(Debug)]
struct PemFiles {
    chain: PathBuf,
    key: PathBuf,
    provider: Arc<CryptoProvider>,
}

/// What differs between two versions of each file: when it was written, and its length.
type Versions = [Option<(SystemTime, u64)>; 2];

impl PemFiles {
    fn versions(&self) -> Versions {
        [&self.chain, &self.key].map(|path| {
            let metadata = fs::metadata(path).ok()?;
            Some((metadata.modified().ok()?, metadata.len()))
        })
    }

    fn read(&self) -> Result<Arc<CertifiedKey>, CertificateError> {
        let chain = CertificateDer::pem_file_iter(&self.chain)?.collect::<Result<Vec<_>, _>>()?;
        if chain.is_empty() {
            return Err(pem::Error::NoItemsFound.into());
        }
        let key = PrivateKeyDer::from_pem_file(&self.key)?;
        Ok(Arc::new(CertifiedKey::from_der(chain, key, &self.provider)?))
    }
}

/// Shows the certificate of files as they are now.
#[derive(Debug)]
struct RenewedKey {
    files: PemFiles,
    shown: Mutex<Shown>,
}

#[derive(Debug)]
struct Shown {
    key: Arc<CertifiedKey>,
    /// Those that were read last, also if they cannot be used.
    versions: Versions,
    /// When they were looked at.
    looked: Instant,
}

impl ResolvesServerCert for RenewedKey {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }
}

impl RenewedKey {
    fn new(files: PemFiles) -> Result<Self, CertificateError> {
        let versions = files.versions();
        let shown = Shown { key: files.read()?, versions, looked: Instant::now() };
        Ok(Self { files, shown: Mutex::new(shown) })
    }

    fn current(&self) -> Arc<CertifiedKey> {
        let mut shown = self.shown.lock();
        let now = Instant::now();
        if now >= shown.looked + INTERVAL {
            shown.looked = now;
            shown.look_again(&self.files);
        }
        Arc::clone(&shown.key)
    }
}

impl Shown {
    fn look_again(&mut self, files: &PemFiles) {
        // before they are read: what is written meanwhile is another version
        let versions = files.versions();
        if versions == self.versions {
            return;
        }
        self.versions = versions;
        let chain = files.chain.display();
        match files.read() {
            Ok(key) => {
                tracing::info!(%chain, "the certificate was read again");
                self.key = key;
            }
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(%chain, error, "a new certificate cannot be used, the one before stays");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [[&str; 2]; 2] =
        [["cert.pem", "key.pem"], ["renewed-cert.pem", "renewed-key.pem"]];

    #[tokio::test]
    async fn a_pair_that_does_not_fit_leaves_the_one_before() {
        tokio::time::pause();
        let [old, new] = FILES.map(|pair| {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/support/tls");
            pair.map(|file| folder.join(file))
        });
        let folder = std::env::temp_dir().join(format!("asyncsteps-pair-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let provider = Arc::new(ring::default_provider());
        let (chain, key) = (folder.join("cert.pem"), folder.join("key.pem"));
        fs::copy(&old[0], &chain).expect("a file");
        fs::copy(&old[1], &key).expect("a file");
        let renewed =
            RenewedKey::new(PemFiles { chain: chain.clone(), key: key.clone(), provider });
        let renewed = renewed.expect("they fit");
        let first = renewed.current();
        let later = async || {
            tokio::time::advance(INTERVAL).await;
            renewed.current()
        };
        // the new chain comes before its key, and a file is away for a while
        fs::copy(&new[0], &chain).expect("a file");
        assert!(Arc::ptr_eq(&first, &later().await));
        fs::remove_file(&key).expect("it is there");
        assert!(Arc::ptr_eq(&first, &later().await));
        fs::copy(&new[1], &key).expect("a file");
        assert!(Arc::ptr_eq(&first, &renewed.current()), "not looked at yet");
        let second = later().await;
        assert_ne!(first.cert, second.cert);
        assert!(Arc::ptr_eq(&second, &later().await), "nothing has changed");
        fs::remove_dir_all(folder).expect("it is there");
    }
}
