//! `executor-demo`: serves the demo shop until it is stopped.

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;

use actix_rt::signal::unix::{SignalKind, signal};
use anyhow::{Context, ensure};
use asyncsteps::executor::Closed;
use asyncsteps::observe::{self, Format};
use clap::{Parser, Subcommand};
use executor_demo::jobs::JobsOptions;
use executor_demo::node::{CallOptions, DrainOptions, Hosted, NodesOptions};
use executor_demo::openapi::OpenApiOptions;
use executor_demo::plan::PlanOptions;
use executor_demo::printable::printable;
use executor_demo::{Config, LogFormat, run};

#[cfg(feature = "mimalloc")]
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A FutoIn shop: restock, order, and never sell what is not there.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    config: Config,
}

#[derive(Debug, Subcommand)]
enum Command {
    Call(CallOptions),
    Nodes(NodesOptions),
    Drain(DrainOptions),
    Jobs(JobsOptions),
    Plan(PlanOptions),
    Openapi(OpenApiOptions),
}

fn main() -> ExitCode {
    let Cli { command, config } = Cli::parse();
    match command {
        None => serve_logging(config),
        Some(Command::Call(options)) => print(options.run()),
        Some(Command::Nodes(options)) => print(options.run()),
        Some(Command::Drain(options)) => print(options.run()),
        Some(Command::Jobs(options)) => print(options.run()),
        Some(Command::Plan(options)) => print(async move { options.run() }),
        Some(Command::Openapi(options)) => print(async move { options.run() }),
    }
}

/// Prints the result of a command.
fn print(told: impl Future<Output = anyhow::Result<String>>) -> ExitCode {
    let told = actix_rt::System::new().block_on(told);
    let printed = told.and_then(|told| Ok(writeln!(io::stdout(), "{}", printable(&told))?));
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn serve_logging(config: Config) -> ExitCode {
    let log = match config.log {
        None => observe::init(),
        Some(LogFormat::Text) => observe::log().format(Format::Text).init(),
        Some(LogFormat::Json) => observe::log().format(Format::Json).init(),
    };
    let log = match log.context("cannot log") {
        Ok(log) => log,
        Err(error) => return fail(&error),
    };
    let served = serve(config);
    if let Err(error) = &served {
        tracing::error!("{error:#}");
    }
    drop(log);
    if served.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints an error that cannot be logged.
fn fail(error: &anyhow::Error) -> ExitCode {
    // if standard error is closed, the exit code reports it
    let _ = writeln!(io::stderr(), "{}", printable(&format!("{error:#}")));
    ExitCode::FAILURE
}

fn serve(config: Config) -> anyhow::Result<()> {
    let listener = TcpListener::bind(config.listen)
        .with_context(|| format!("cannot listen on {}", config.listen))?;
    let address = listener.local_addr()?;
    let announcement = announcement(&config, address);
    // asked for when the server runs
    let stop = async move {
        let stop = StopSignals::watch();
        // a closed standard output is no reason not to serve
        let _ = writeln!(io::stdout(), "{announcement}");
        stop.wait().await;
    };
    let closed = actix_rt::System::new().block_on(run(listener, config, stop))?;
    let Closed { finished, cancelled, not_undone, .. } = closed;
    tracing::info!(finished, cancelled, not_undone, "stopped");
    ensure!(not_undone == 0, "{not_undone} flows were stopped before they were undone");
    Ok(())
}

fn announcement(config: &Config, address: SocketAddr) -> String {
    let data = match config.node.only {
        Some(Hosted::None) => String::new(),
        Some(Hosted::Shop | Hosted::Bank) | None => format!(", data in {}", config.data.display()),
    };
    let scheme = if config.tls_cert.is_some() { "https" } else { "http" };
    format!(
        "executor-demo listens on {scheme}://{address}/ftn/{data}\n\
         try: curl -s --json '{PING}' {scheme}://{address}/ftn/"
    )
}

const PING: &str = r#"{"f":"futoin.anonping:1.0:ping","p":{"echo":7}}"#;

/// SIGINT and SIGTERM.
struct StopSignals(Option<[actix_rt::signal::unix::Signal; 2]>);

impl StopSignals {
    /// From here on they do not end the process by themselves.
    fn watch() -> Self {
        let watched = signal(SignalKind::interrupt())
            .and_then(|interrupt| Ok([interrupt, signal(SignalKind::terminate())?]));
        if let Err(error) = &watched {
            tracing::error!(%error, "cannot watch for signals; only a kill will stop this");
        }
        Self(watched.ok())
    }

    /// Waits for one of them.
    async fn wait(self) {
        let Some([mut interrupt, mut terminate]) = self.0 else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}
