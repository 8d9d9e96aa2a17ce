//! Serves the interfaces `conform.*` until it is told to stop.

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::ExitCode;

use actix_rt::signal::unix::{SignalKind, signal};
use anyhow::Context as _;
use asyncsteps_observe::Format;
use asyncsteps_transport::http::{self, Cors, Server, tls_from_pem};
use clap::Parser;

/// Serves the interfaces with which clients of FutoIn are tested.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,

    /// Let pages of every origin call.
    #[arg(long)]
    cors: bool,

    /// Write the log as JSON.
    #[arg(long)]
    json: bool,

    /// Serve HTTPS with this certificate chain, a PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// The private key of the certificate, a PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let format = if options.json { Format::Json } else { Format::Text };
    let log = asyncsteps_observe::log().format(format).init();
    let served = log.context("cannot log").and_then(|log| {
        let served = actix_rt::System::new().block_on(serve(options));
        drop(log);
        served
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // a closed standard error leaves the exit code
            let _ = writeln!(io::stderr(), "{error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(options: Options) -> anyhow::Result<()> {
    let listener = TcpListener::bind(options.listen)
        .with_context(|| format!("cannot listen on {}", options.listen))?;
    let address = listener.local_addr()?;
    let executor = asyncsteps_conform::executor()?;
    let service = http::service("/ftn/", executor);
    let service = if options.cors { service.cors(Cors::any()) } else { service };
    let server = Server::new(service);
    let (server, scheme) = match options.tls_cert.zip(options.tls_key) {
        Some((cert, key)) => (server.listen_rustls(listener, tls_from_pem(&cert, &key)?)?, "https"),
        None => (server.listen(listener)?, "http"),
    };
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let stop = async move {
        // a closed standard output is no reason not to serve
        let _ = writeln!(io::stdout(), "asyncsteps-conform listens on {scheme}://{address}/ftn/");
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    let closed = server.run_until(stop).await?;
    tracing::info!(finished = closed.finished, cancelled = closed.cancelled, "stopped");
    Ok(())
}
