//! Servers that say what a test says.

use std::net::SocketAddr;

use asyncsteps_fabric::http::{Config, HttpFabric, Remote};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Has `answer` answer each connection, one after the other.
pub(crate) async fn listen<F>(answer: impl Fn(TcpStream) -> F + 'static) -> SocketAddr
where
    F: Future<Output = ()> + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    actix_rt::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            actix_rt::spawn(answer(connection));
        }
    });
    address
}

/// Reads the head and the body of a request with a length.
pub(crate) async fn request(connection: &mut TcpStream) -> String {
    let mut read = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&read);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length = length.map_or(0, |length| length.parse().expect("a number"));
            if body.len() >= length {
                return text.into_owned();
            }
        }
        let mut part = [0; 4096];
        match connection.read(&mut part).await {
            Ok(count) if count > 0 => read.extend_from_slice(&part[..count]),
            _ => return String::from_utf8_lossy(&read).into_owned(),
        }
    }
}

/// Answers each request with these bytes, and closes.
pub(crate) async fn answers(bytes: impl Into<Vec<u8>>) -> SocketAddr {
    let bytes: Vec<u8> = bytes.into();
    listen(move |mut connection| {
        let bytes = bytes.clone();
        async move {
            request(&mut connection).await;
            // the client may have seen enough
            let _ = connection.write_all(&bytes).await;
        }
    })
    .await
}

/// A fabric with the interface `test.node:1.1` at a URL.
pub(crate) fn fabric(config: Config, url: String) -> HttpFabric {
    let fabric = HttpFabric::new(config).expect("a fabric");
    fabric.register("test.node:1.1".parse().expect("a name"), Remote::new(url)).expect("a URL");
    fabric
}
