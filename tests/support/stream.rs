//! The bytes of a connection to a server, plain or over TLS.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig};
use socket2::{Domain, Socket, Type};

use crate::PATIENCE;

/// A certificate for 127.0.0.1 that signed itself, and its key: made for these tests, and worth
/// nothing elsewhere.
pub const CERTIFICATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tls/cert.pem");

/// The key of the [`CERTIFICATE`].
pub const KEY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tls/key.pem");

/// Another one, that takes the place of the [`CERTIFICATE`].
pub const RENEWED_CERTIFICATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tls/renewed-cert.pem");

/// The key of the [`RENEWED_CERTIFICATE`].
pub const RENEWED_KEY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tls/renewed-key.pem");

/// A connection; dropping it closes it.
#[derive(Debug)]
pub struct Stream {
    tcp: TcpStream,
    tls: Option<Box<ClientConnection>>,
}

impl Stream {
    /// Connects.
    #[must_use]
    pub fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).expect("the server listens"))
    }

    /// Connects from another address of this machine: Linux has all of 127.0.0.0/8.
    #[must_use]
    pub fn connect_from(own: impl Into<IpAddr>, address: SocketAddr) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.bind(&SocketAddr::new(own.into(), 0).into()).expect("an address of this machine");
        socket.connect(&address.into()).expect("the server listens");
        Self::over(socket.into())
    }

    /// Connects with TLS to a server that has the [`CERTIFICATE`].
    #[must_use]
    pub fn secure(address: SocketAddr) -> Self {
        Self::secure_with(address, &[])
    }

    /// The same, and offers these protocols (ALPN).
    #[must_use]
    pub fn secure_with(address: SocketAddr, protocols: &[&[u8]]) -> Self {
        let mut config = client_config();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        let tls = ClientConnection::new(Arc::new(config), address.ip().into());
        let tls = Some(Box::new(tls.expect("a right configuration")));
        Self { tls, ..Self::connect(address) }
    }

    fn over(tcp: TcpStream) -> Self {
        tcp.set_nodelay(true).expect("a socket option");
        tcp.set_read_timeout(Some(PATIENCE)).expect("a socket option");
        tcp.set_write_timeout(Some(PATIENCE)).expect("a socket option");
        Self { tcp, tls: None }
    }

    /// The protocol that both ends agreed on (ALPN), once bytes went both ways.
    #[must_use]
    pub fn protocol(&self) -> Option<&[u8]> {
        self.tls.as_ref()?.alpn_protocol()
    }

    /// The certificate of the server, once bytes went both ways over TLS.
    #[must_use]
    pub fn certificate(&self) -> Option<&CertificateDer<'static>> {
        self.tls.as_ref()?.peer_certificates()?.first()
    }

    /// The socket itself, for its options.
    #[must_use]
    pub fn tcp(&self) -> &TcpStream {
        &self.tcp
    }
}

/// A configuration of clients that trust the [`CERTIFICATE`], and the [`RENEWED_CERTIFICATE`].
#[must_use]
pub fn client_config() -> ClientConfig {
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    for file in [CERTIFICATE, RENEWED_CERTIFICATE] {
        let certificate = CertificateDer::from_pem_file(Path::new(file));
        roots.add(certificate.expect("a certificate")).expect("a root");
    }
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has them")
        .with_root_certificates(roots)
        .with_no_client_auth()
}

/// A server that shows the [`CERTIFICATE`].
#[must_use]
pub fn server_config() -> ServerConfig {
    let certificate = CertificateDer::from_pem_file(CERTIFICATE).expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(KEY).expect("a key");
    ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has them")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("they fit")
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            Some(tls) => rustls::Stream::new(&mut **tls, &mut self.tcp).read(bytes),
            None => self.tcp.read(bytes),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            Some(tls) => rustls::Stream::new(&mut **tls, &mut self.tcp).write(bytes),
            None => self.tcp.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.tls {
            Some(tls) => rustls::Stream::new(&mut **tls, &mut self.tcp).flush(),
            None => self.tcp.flush(),
        }
    }
}
