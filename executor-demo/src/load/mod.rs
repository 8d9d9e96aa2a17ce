//! `executor-demo load`: requests at a given rate, and what the server made of them.
//!
//! The schedule is open: a request is due when its time comes, whether or not earlier ones were
//! answered, and its response time counts from then. A server that stalls for a second shows it in
//! every request that was due in that second, and not in one of them (coordinated omission).
//!
//! In reading order:
//! - `options`: the command line
//! - `schedule`, `pacer`: when requests are due
//! - `calls`, `mix`: which requests, as customers of the shop and the bank would send them
//! - `client`: HTTP and WebSocket
//! - `run`: one run at one rate; `knee`: several, to find the highest rate
//! - `books`, `check`: stock, orders and money as they have to be afterwards, and as they are
//! - `measured`, `report`, `hgrm`: times, and how they are reported

mod books;
mod calls;
mod check;
mod client;
mod hgrm;
mod measured;
mod mix;
mod options;
mod pacer;
mod progress;
mod report;
mod run;
mod saturation;
mod schedule;

use std::io::Write;
use std::time::Duration;

use anyhow::Context as _;

pub use options::{Arrivals, LoadOptions};
pub use report::{Consistency, ErrorCount, FunctionReport, Percentiles, Report, Saturation};

pub(crate) use client::Client;
use mix::Mix;
use run::Load;

/// Loads a server as the options say, and checks what the server has made of it. The measurements
/// are printed to `out`, and written to the files of the options, before the check; the check takes
/// the patience of the options at the most.
///
/// The server must be a demo that nothing else uses meanwhile: the check compares what its shop and
/// bank have before and after.
///
/// # Errors
/// If the server cannot be reached or is no demo, or a file cannot be written. The findings of the
/// check are in the report.
///
/// # Panics
/// Outside of a tokio `LocalSet`.
pub async fn load(options: &LoadOptions, out: &mut impl Write) -> anyhow::Result<Report> {
    let target = options.target()?;
    let client = Client::connect(&target, options.connections, options.patience()).await?;
    let name = run_name()?;
    let books = check::open_books(&client, Mix::skus(&name).collect()).await;
    let books = books.context("this is no demo shop")?;
    let mix = Mix::new(
        &name,
        options.seed,
        options.rate * options.duration().as_secs_f64(),
        books.bank().is_some(),
    );
    let load = Load::new(client, books, mix);
    let (run, knee) = match options.find_knee {
        None => (load.run(options, options.rate).await?, None),
        Some(limit) => {
            let limit = Duration::from_millis(limit);
            let (run, knee) = saturation::find(&load, options, limit).await?;
            (run, Some(knee))
        }
    };
    let mut report = Report::new(&run, knee);
    write!(out, "{}", report.measurements())?;
    out.flush()?;
    if let Some(file) = &options.json {
        report.write(file)?;
    }
    if let Some(folder) = &options.hgrm {
        hgrm::write(&run.measured, folder)?;
    }
    let found = load.check(options.patience()).await;
    (report.mismatches, report.not_checked) = (found.wrong, found.not_checked);
    report.unasked = load.client.unasked().await;
    if let Some(file) = &options.json {
        report.write(file)?;
    }
    Ok(report)
}

/// The name of this run, which its products and customers have in theirs, so that runs on one database
/// do not meet.
fn run_name() -> anyhow::Result<String> {
    let number = getrandom::u32().context("no random number")?;
    Ok(format!("{number:08x}"))
}
