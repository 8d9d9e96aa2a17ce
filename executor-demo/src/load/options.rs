//! The command line of `executor-demo load`.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use super::client::Target;

/// Load a demo with requests at a given rate, and check what it made of them.
#[derive(Clone, Debug, Parser)]
pub struct LoadOptions {
    /// The end point of the server: http://127.0.0.1:8080/ftn/, or ws:// for WebSocket.
    pub url: String,

    /// Requests per second.
    #[arg(long, value_name = "N", default_value_t = 1000.0, value_parser = rate)]
    pub rate: f64,

    /// Seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, value_parser = seconds)]
    pub duration: f64,

    /// When requests are due: as independent customers come, or at equal distances.
    #[arg(long, value_enum, default_value_t = Arrivals::Poisson)]
    pub arrivals: Arrivals,

    /// The most connections at once; over WebSocket exactly this number. Over HTTP each request has one
    /// for itself, and waits until one is free.
    #[arg(long, value_name = "N", default_value = "64")]
    pub connections: NonZeroUsize,

    /// The most requests in flight: requests that are due beyond them are not sent, but reported.
    #[arg(long, value_name = "N", default_value = "20000")]
    pub in_flight: NonZeroUsize,

    /// Seconds after the last request that its answer may take, and that the check after it may take as
    /// a whole.
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, value_parser = seconds)]
    pub patience: f64,

    /// The seed of arrivals and requests, to repeat them.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,

    /// Find the highest rate whose 99th percentile of response times is at most this number of
    /// milliseconds: runs of the given duration, which begin at the given rate.
    #[arg(long, value_name = "MS")]
    pub find_knee: Option<u64>,

    /// Write the report here, as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Write the distributions of response times into this folder, a file per function in the format of
    /// HdrHistogram (.hgrm).
    #[arg(long, value_name = "FOLDER")]
    pub hgrm: Option<PathBuf>,

    /// Compare with this report, which an earlier run wrote with --json.
    #[arg(long, value_name = "FILE")]
    pub compare: Option<PathBuf>,

    /// Show no progress.
    #[arg(long)]
    pub quiet: bool,
}

/// When requests are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[expect(clippy::exhaustive_enums, reason = "an option of a program, not of a library")]
pub enum Arrivals {
    /// At random times that know nothing of each other.
    Poisson,
    /// At equal distances.
    Fixed,
}

impl LoadOptions {
    pub(super) fn target(&self) -> anyhow::Result<Target> {
        self.url.parse()
    }

    pub(super) fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.duration)
    }

    pub(super) fn patience(&self) -> Duration {
        Duration::from_secs_f64(self.patience)
    }
}

/// The most requests per second: one thread sends them.
const MAX_RATE: f64 = 1e6;

/// The longest run: a day.
const MAX_SECONDS: f64 = 86_400.0;

fn rate(text: &str) -> Result<f64, String> {
    within(text, MAX_RATE)
}

fn seconds(text: &str) -> Result<f64, String> {
    within(text, MAX_SECONDS)
}

fn within(text: &str, most: f64) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    match number > 0.0 && number <= most {
        true => Ok(number),
        false => Err(format!("not above 0 and up to {most}")),
    }
}
