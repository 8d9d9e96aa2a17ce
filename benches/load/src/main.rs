//! `asyncsteps-load`: requests at a given rate to an `executor-demo`, and what it made of them.
//!
//! The schedule is open: a request is due when its time comes, whether or not earlier ones were
//! answered, and its response time counts from then. A server that stalls for a second shows it in
//! every request that was due in that second, and not in one of them (coordinated omission).
//!
//! In reading order:
//! - `options`: the command line
//! - `schedule`: when requests are due
//! - `mix`: which requests, as customers of the shop and the bank would send them
//! - `client`: HTTP and WebSocket
//! - `run`: one run at one rate; `saturation`: several, to find the highest rate
//! - `books`, `check`: stock, orders and money as they have to be afterwards, and as they are
//! - `measured`, `report`, `hgrm`: times, and how they are reported
#![forbid(unsafe_code)]

mod books;
mod check;
mod client;
mod hgrm;
mod measured;
mod mix;
mod options;
mod report;
mod run;
mod saturation;
mod schedule;

use std::cell::RefCell;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser as _;
use tokio::runtime::Builder;
use tokio::task::LocalSet;

use client::Client;
use mix::Mix;
use options::Options;
use report::{Consistency, Report};
use run::Load;

fn main() -> ExitCode {
    let options = Options::parse();
    let runtime = Builder::new_current_thread().enable_all().build().context("no event loop");
    let loaded = runtime.and_then(|runtime| LocalSet::new().block_on(&runtime, load(&options)));
    match loaded {
        Ok(consistency) => ExitCode::from(consistency as u8),
        Err(error) => {
            // if standard error is closed, the exit code reports it
            let _ = writeln!(io::stderr(), "{}", report::one_line(&format!("{error:#}")));
            ExitCode::FAILURE
        }
    }
}

/// Loads a server as the options say, and checks what the server has made of it. The measurements
/// are printed, and written to the files of the options, before the check.
///
/// The server must be a demo that nothing else uses meanwhile: the check compares what its shop and
/// bank have before and after.
async fn load(options: &Options) -> anyhow::Result<Consistency> {
    // a file that cannot be compared with is reported before the load
    let before = options.compare.as_deref().map(Report::read).transpose()?;
    let client = Client::connect(&options.url, options.connections, options.patience).await?;
    // products and customers have it in theirs, so that runs on one database do not meet
    let name = format!("{:08x}", getrandom::u32().context("no random number")?);
    let books = check::open_books(&client, Mix::skus(&name).collect()).await;
    let books = books.context("this is no demo shop")?;
    let requests = options.rate * options.duration.as_secs_f64();
    let mix = Mix::new(&name, options.seed, requests, books.bank.is_some());
    let load = Rc::new(Load { client, books: RefCell::new(books), mix: RefCell::new(mix) });
    let (run, saturation) = match options.find_saturation {
        None => (load.run(options, options.rate).await?, None),
        Some(limit) => {
            let limit = Duration::from_millis(limit);
            let (run, saturation) = saturation::find(&load, options, limit).await?;
            (run, Some(saturation))
        }
    };
    let mut report = Report::new(&run, saturation);
    let mut out = io::stdout().lock();
    report.write_measurements(&mut out)?;
    out.flush()?;
    report.write(options.json.as_deref())?;
    if let Some(folder) = &options.hgrm {
        hgrm::write(&run.measured, folder)?;
    }
    // no request is in flight that would note something
    let mut books = load.books.take();
    let call = async |function: &str, params: &_| load.client.call(function, params).await;
    let found = check::check(call, &mut books, options.patience).await;
    (report.mismatches, report.not_checked) = (found.wrong, found.not_checked);
    report.unasked = load.client.unasked();
    report.write(options.json.as_deref())?;
    report.write_findings(&mut out)?;
    if let Some(before) = before {
        report.write_compared(&before, &mut out)?;
    }
    Ok(report.consistency())
}
