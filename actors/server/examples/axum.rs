//! A router of axum within limits: with its own maximum of connections, and ten seconds for a head.
//!
//! `curl localhost:8080/count -d 'some text'`

use std::net::TcpListener;
use std::time::Duration;

use asyncsteps_server::{ServerLimits, serve};
use axum::Router;
use axum::routing::{get, post};

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let router = Router::new()
        .route("/", get(async || "hello\n"))
        .route("/count", post(async |text: String| format!("{}\n", text.len())));
    let limits = ServerLimits {
        connections: 1_000,
        head_timeout: Duration::from_secs(10),
        ..ServerLimits::default()
    };
    serve(router).limits(limits).listen(TcpListener::bind("127.0.0.1:8080")?)?.run().await
}
