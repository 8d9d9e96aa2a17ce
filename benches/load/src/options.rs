//! The command line.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

/// Load a demo with requests at a given rate, and check what it made of them.
#[derive(Clone, Debug, Parser)]
#[command(version)]
pub(crate) struct Options {
    /// The end point of the server: http://127.0.0.1:8080/ftn/, or ws:// for WebSocket.
    pub(crate) url: String,

    /// Requests per second.
    #[arg(long, value_name = "N", default_value = "1000", value_parser = rate)]
    pub(crate) rate: f64,

    /// Seconds.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub(crate) duration: Duration,

    /// When requests are due: as independent customers come, or at equal distances.
    #[arg(long, value_enum, default_value_t = Arrivals::Poisson)]
    pub(crate) arrivals: Arrivals,

    /// The most connections at once; over WebSocket exactly this number. Over HTTP each request has one
    /// for itself, and waits until one is free.
    #[arg(long, value_name = "N", default_value = "64")]
    pub(crate) connections: NonZeroUsize,

    /// Seconds after the last request that its answer may take, and that the check after it may take as
    /// a whole.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub(crate) patience: Duration,

    /// The seed of arrivals and requests, to repeat them.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,

    /// Find the highest rate whose 99th percentile of response times is at most this number of
    /// milliseconds: runs of the given duration, which begin at the given rate.
    #[arg(long, value_name = "MS")]
    pub(crate) find_saturation: Option<u64>,

    /// Write the report here, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Write the distributions of response times into this folder, a file per function in the format of
    /// HdrHistogram (.hgrm).
    #[arg(long, value_name = "FOLDER")]
    pub(crate) hgrm: Option<PathBuf>,

    /// Compare with this report, which an earlier run wrote with --json.
    #[arg(long, value_name = "FILE")]
    pub(crate) compare: Option<PathBuf>,
}

/// When requests are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Arrivals {
    /// At random times that know nothing of each other.
    Poisson,
    /// At equal distances.
    Fixed,
}

/// The most requests per second: one thread sends them.
const MAX_RATE: f64 = 1e6;

/// The longest run: a day.
const MAX_SECONDS: f64 = 86_400.0;

fn rate(text: &str) -> Result<f64, String> {
    within(text, MAX_RATE)
}

fn seconds(text: &str) -> Result<Duration, String> {
    within(text, MAX_SECONDS).map(Duration::from_secs_f64)
}

fn within(text: &str, most: f64) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    match number > 0.0 && number <= most {
        true => Ok(number),
        false => Err(format!("not above 0 and up to {most}")),
    }
}
