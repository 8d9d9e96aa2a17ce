//! `executor-demo`: serves the demo shop until it is told to stop.

use std::io::Write as _;
use std::net::TcpListener;

use anyhow::Context;
use clap::Parser;
use executor_demo::{Config, LogFormat, run};

fn main() -> anyhow::Result<()> {
    let config = Config::parse();
    init_log(config.log);
    let listener = TcpListener::bind(config.listen)
        .with_context(|| format!("cannot listen on {}", config.listen))?;
    let address = listener.local_addr()?;
    announce(&config, address);
    let closed = actix_rt::System::new().block_on(run(listener, config, stop_signal()))?;
    tracing::info!(finished = closed.finished, cancelled = closed.cancelled, "stopped");
    Ok(())
}

fn announce(config: &Config, address: std::net::SocketAddr) {
    let data = match config.conform {
        true => "no data".to_owned(),
        false => format!("data in {}", config.data.display()),
    };
    let scheme = if config.tls_cert.is_some() { "https" } else { "http" };
    // a closed standard output is no reason not to serve
    let _ = writeln!(
        std::io::stdout(),
        "executor-demo listens on {scheme}://{address}/ftn/, {data}\n\
         try: curl -s --json '{PING}' {scheme}://{address}/ftn/"
    );
}

const PING: &str = r#"{"f":"futoin.anonping:1.0:ping","p":{"echo":7}}"#;

/// Spans are logged when they close, with how long they took; steps with `RUST_LOG=asyncsteps=debug`.
fn init_log(format: LogFormat) {
    use tracing_subscriber::EnvFilter;
    use tracing_subscriber::fmt::format::FmtSpan;

    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_span_events(FmtSpan::CLOSE)
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
}

/// SIGINT or SIGTERM.
async fn stop_signal() {
    use actix_rt::signal::unix::{SignalKind, signal};

    let (mut interrupt, mut terminate) =
        match (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) {
            (Ok(interrupt), Ok(terminate)) => (interrupt, terminate),
            (Err(error), _) | (_, Err(error)) => {
                tracing::error!(%error, "cannot watch for signals; only a kill will stop this");
                return std::future::pending().await;
            }
        };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}
