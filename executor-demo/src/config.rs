//! The command line.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::Context as _;
use asyncsteps::budget::Limits;
use asyncsteps::durable::WAITING_PER_CALLER;
use asyncsteps::http::{Cors, ServerLimits};
use asyncsteps::observe::Retention;
use asyncsteps::security::{PasswordHash, Secret, StaticUsers};
use clap::{Parser, ValueEnum};

use crate::bank::LinkOptions;
use crate::journal::JournalPlace;
use crate::node::NodeOptions;

/// How the shop is served.
#[derive(Clone, Debug, Parser)]
pub struct Config {
    /// Where to listen; port 0 takes a free one. The functions are at /ftn/. At the same address are what
    /// the operator reads: /metrics for Prometheus, /health and /ready for probes, and /console. A proxy
    /// that serves others forwards /ftn/ only.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,

    /// The SQLite database; created if it does not exist.
    #[arg(long, value_name = "FILE", default_value = "executor-demo.db")]
    pub data: PathBuf,

    /// Make orders and captures durable: they survive a crash, and are remembered for a day after they
    /// ended. Processes on one journal share what orders have reserved. The journal is a SQLite file, created if it does not exist, or postgres://user@host/database.
    /// A password is better in a file, which `?passfile=FILE` names in the form of libpq's and which is read whenever a connection
    /// is made, or in the environment, since other users of the machine see the arguments.
    #[arg(long, value_name = "FILE|URL", env = "JOURNAL", hide_env_values = true)]
    pub journal: Option<JournalPlace>,

    /// How many durable requests of a caller may wait; a further one is refused. Callers at one address are one, and
    /// all of them together may have ten times as many.
    #[arg(long, value_name = "N", default_value_t = WAITING_PER_CALLER)]
    pub waiting_per_caller: u64,

    /// Serve HTTPS with this certificate chain, a PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// The private key of the certificate, a PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// The options of this process as a node.
    #[command(flatten)]
    pub node: NodeOptions,

    /// Let pages of this origin call, or of all with *; may be repeated.
    #[arg(long, value_name = "ORIGIN")]
    pub cors: Vec<String>,

    /// Serve functions and /metrics for requests with this host name, with any port; may be repeated. Where
    /// the demo listens on the loopback only, its own names are served unless others are given, so that no
    /// page can reach it by a name of its own; elsewhere all are. Prometheus sends the name or address of
    /// its target. /health and /ready are answered under every name, because probes use addresses and
    /// learn no more than yes or no; /console has rules of its own, see --console-token.
    #[arg(long, value_name = "NAME")]
    pub host: Vec<String>,

    /// Let this user sign in with a password, for functions that want a user; may be repeated. Better given by the
    /// environment, since other users of the machine see the arguments.
    #[arg(long, value_name = "NAME:PASSWORD", env = "SHOP_USER", hide_env_values = true)]
    pub user: Vec<String>,

    /// Let everyone see the console at /console who has this token; without one it is for this machine
    /// alone. Better given by the environment, since other users of the machine see the arguments.
    #[arg(
        long,
        value_name = "TOKEN",
        env = "CONSOLE_TOKEN",
        hide_env_values = true,
        conflicts_with = "no_console"
    )]
    pub console_token: Option<String>,

    /// Do not serve the console.
    #[arg(long)]
    pub no_console: bool,

    /// Threads that serve requests, 128 at the most; one per processor is enough.
    #[arg(long, value_name = "N", default_value_t = default_workers(), value_parser = workers)]
    pub workers: NonZeroUsize,

    /// Megabytes that requests and connections may hold, the budget's memory: a quarter of what the process
    /// may have.
    #[arg(long, value_name = "MB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    pub memory: u32,

    /// Connections at most, half of them of one client.
    #[arg(long, value_name = "N", default_value_t = ServerLimits::default().connections)]
    pub connections: usize,

    /// Sell without the bank: orders are not paid.
    #[arg(long)]
    pub without_bank: bool,

    /// What a customer may owe, in cents; without a limit by default.
    #[arg(long, value_name = "CENTS", value_parser = clap::value_parser!(i64).range(0..))]
    pub bank_credit: Option<i64>,

    /// Milliseconds that a call of the bank may take on its way there, and back; each way of each call
    /// takes a random part of it.
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub bank_latency: u64,

    /// How many of a hundred calls of the bank are lost, half of them after they were carried out.
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub bank_failures: u32,

    /// The seed of latency and failures, to repeat them.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub bank_seed: u64,

    /// The form of the log on the standard error, instead of the variable LOG_FORMAT; RUST_LOG selects
    /// the lines.
    #[arg(long, value_enum)]
    pub log: Option<LogFormat>,

    /// Send traces to the collector of OpenTelemetry at this address, over OTLP with HTTP, such as
    /// http://localhost:4318, or with https.
    #[arg(long, value_name = "URL", env = "OTEL_EXPORTER_OTLP_ENDPOINT")]
    pub otlp: Option<String>,

    /// The share of the traces that begin here that is sampled, from 0 to 1; callers decide for theirs.
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = share)]
    pub trace_share: f64,

    /// The most slow and failed requests that are kept with their steps for the console, the newest ones;
    /// each takes 12 KiB at the most.
    #[arg(long, value_name = "N", default_value_t = Retention::default().most)]
    pub keep: usize,

    /// Seconds a request may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    pub timeout: u32,

    /// Seconds that a client may take to send the head of a request.
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    pub head_timeout: u32,

    /// Seconds that a connection is kept for the next request, 5 at most while there are many.
    #[arg(long, value_name = "SECONDS", default_value_t = 75)]
    pub keep_alive: u32,

    /// Seconds that the server goes on as before when it is to stop, but for /ready, which says closing:
    /// the time that a balancer needs to notice it.
    #[arg(long, value_name = "SECONDS", default_value_t = 1)]
    pub drain_delay: u32,

    /// Seconds that requests in flight may take when the server stops: first requests of other nodes, if any, then all
    /// others.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub grace: u32,
}

/// The most threads that serve requests: each takes four file descriptors, so that a process with the
/// usual limit of 1,024 has half of them left for connections.
const MAX_WORKERS: NonZeroUsize = NonZeroUsize::new(128).unwrap();

/// The form of the log.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[expect(clippy::exhaustive_enums, reason = "an option of a program, not of a library")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

impl Config {
    pub(crate) fn request_timeout(&self) -> Duration {
        Duration::from_secs(self.timeout.into())
    }

    /// How long a caller waits for an order: less than for a request, so that the order says why it has not ended.
    pub(crate) fn answer_within(&self) -> Duration {
        self.request_timeout().mul_f64(0.8)
    }

    pub(crate) fn head_timeout(&self) -> Duration {
        Duration::from_secs(self.head_timeout.into())
    }

    pub(crate) fn budget(&self) -> Limits {
        let megabytes = usize::try_from(self.memory).unwrap_or(usize::MAX);
        Limits { memory: megabytes.saturating_mul(1 << 20), ..Limits::default() }
    }

    pub(crate) fn keep_alive(&self) -> Duration {
        Duration::from_secs(self.keep_alive.into())
    }

    pub(crate) fn cors(&self) -> Option<Cors> {
        if self.cors.iter().any(|origin| origin == "*") {
            return Some(Cors::any());
        }
        (!self.cors.is_empty()).then(|| Cors::origins(&self.cors))
    }

    /// The host names that are served, for a listener at this address; `None` for all.
    pub(crate) fn hosts(&self, listener: SocketAddr) -> Option<Vec<String>> {
        if !self.host.is_empty() {
            return Some(self.host.clone());
        }
        let own = ["localhost", "127.0.0.1", "[::1]"];
        listener.ip().is_loopback().then(|| own.map(str::to_owned).into())
    }

    /// The users, if there are some.
    pub(crate) fn users(&self) -> anyhow::Result<Option<StaticUsers>> {
        let mut users = StaticUsers::new();
        for user in &self.user {
            let (name, password) = user.split_once(':').context("a user is NAME:PASSWORD")?;
            users = users.with_password(name, PasswordHash::new(&Secret::new(password))?);
        }
        Ok((!self.user.is_empty()).then_some(users))
    }

    pub(crate) fn bank_link(&self) -> LinkOptions {
        let latency = Duration::from_millis(self.bank_latency);
        LinkOptions { latency, failures: self.bank_failures, seed: self.bank_seed }
    }

    pub(crate) fn drain_delay(&self) -> Duration {
        Duration::from_secs(self.drain_delay.into())
    }

    pub(crate) fn grace(&self) -> Duration {
        Duration::from_secs(self.grace.into())
    }
}

fn default_workers() -> NonZeroUsize {
    available_parallelism().unwrap_or(NonZeroUsize::MIN).min(MAX_WORKERS)
}

fn workers(number: &str) -> Result<NonZeroUsize, String> {
    let number: NonZeroUsize = number.parse().map_err(|_| "not a number above zero")?;
    match number <= MAX_WORKERS {
        true => Ok(number),
        false => Err(format!("more than {MAX_WORKERS}; one per processor is enough")),
    }
}

fn share(number: &str) -> Result<f64, String> {
    let share: f64 = number.parse().map_err(|_| "not a number")?;
    match (0.0..=1.0).contains(&share) {
        true => Ok(share),
        false => Err("not between 0 and 1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Config::command().debug_assert();
    }
}
