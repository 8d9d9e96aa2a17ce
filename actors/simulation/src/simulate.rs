//! Runs of a scenario with many seeds, and the smallest run that still fails.

use std::any::Any;
use std::env;
use std::num::NonZero;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::SystemTime;

use asyncsteps_actors::clock::{self, Clock};
use parking_lot::Mutex;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

use crate::cluster::Cluster;
use crate::figures::RunFigures;
use crate::repeat::{AskedRuns, RepeatedRun};
use crate::shrink::{FailedRun, MOST_TIME, shrink};

/// After how many seeds a run prints where it is.
const REPORT: u64 = 100;

/// Runs a scenario with each of these seeds, on all processors, and returns the figures.
///
/// A scenario adds nodes to the cluster, sets [faults](Cluster::faults), [runs](Cluster::run_for) it, [heals](Cluster::heal)
/// and runs it again, and returns why the world is not as it should be. It is run several times with one seed: it makes the
/// world anew each time, and takes nothing from outside but the cluster.
///
/// The variable `SEEDS` sets other seeds: `0..5000`, `5000..` until one fails (it prints how far it is, so it can go on
/// later from there), or `7` for one seed with its log.
///
/// # Panics
/// With the first seed for which the scenario fails or a node panics. The run is printed, and made smaller: without nodes,
/// faults and time that it does not need, for a minute. The message has the faults that are left, and the value of `SEEDS`
/// that repeats the run. A run that does not fail again is not one of its seed, which the message says.
pub fn simulate(
    seeds: Range<u64>,
    scenario: impl Fn(&mut Cluster) -> Result<(), String> + Sync,
) -> RunFigures {
    let asked = env::var("SEEDS").ok().map(|asked| asked.parse::<AskedRuns>());
    match asked {
        None => all(seeds, &scenario),
        Some(Ok(AskedRuns::Range(seeds))) => all(seeds, &scenario),
        Some(Ok(AskedRuns::From(from))) => endless(from.start, &scenario),
        Some(Ok(AskedRuns::One(repeat))) => {
            log();
            match run(repeat, &scenario) {
                Ok(figures) => figures,
                Err(failed) => panic!("{failed}"),
            }
        }
        Some(Err(error)) => panic!("SEEDS: {error}"),
    }
}

/// Runs these seeds, as many at a time as there are processors.
fn all(
    seeds: Range<u64>,
    scenario: &(dyn Fn(&mut Cluster) -> Result<(), String> + Sync),
) -> RunFigures {
    let next = AtomicU64::new(seeds.start);
    let (done, failed) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let work = || {
        while failed.lock().is_empty() {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            match run(RepeatedRun::of(seed), scenario) {
                Ok(figures) => {
                    let mut done = done.lock();
                    done.push(figures);
                    report(done.len() as u64, seeds.end - seeds.start);
                }
                Err(why) => failed.lock().push(why),
            }
        }
    };
    thread::scope(|scope| {
        let others = thread::available_parallelism().map_or(1, NonZero::get) - 1;
        for _ in 0..others {
            scope.spawn(work);
        }
        work();
    });
    let failed = std::mem::take(&mut *failed.lock());
    if let Some(first) = failed.into_iter().min_by_key(|failed| failed.repeat.seed) {
        fail(first, scenario);
    }
    std::mem::take(&mut *done.lock()).into_iter().sum()
}

/// Prints a run that failed, makes it smaller, and panics with the smallest one.
fn fail(
    first: Box<FailedRun>,
    scenario: &(dyn Fn(&mut Cluster) -> Result<(), String> + Sync),
) -> ! {
    print(&format!("{first}\n\n{}\n", command(&first.repeat)));
    if run(first.repeat.clone(), scenario).is_ok() {
        panic!("{first}\n\n{NOT_A_RUN}");
    }
    print(&format!("it is made smaller, for {} s", MOST_TIME.as_secs()));
    let (begun, mut smallest) = (Clock::start(), first.repeat.clone());
    let smaller = shrink(
        first,
        |repeat| run(repeat, scenario).err(),
        |best, runs| {
            if best.repeat != smallest {
                smallest = best.repeat.clone();
                let (until, faults) = (best.repeat.until, best.struck.len());
                let until = until.map_or_else(String::new, |until| format!(" until {until:?}"));
                print(&format!("after {runs} runs: {faults} faults{until}"));
            }
            begun.elapsed() < MOST_TIME
        },
    );
    panic!("{smaller}\n\n{}", command(&smaller.repeat));
}

/// What is wrong with a seed that fails once.
const NOT_A_RUN: &str = "again, it does not fail: something that the seed does not decide does, such as a `select!` without \
                         `biased;` or the order of a hash table";

#[expect(clippy::print_stdout, reason = "who waits for it looks at a terminal")]
fn print(line: &str) {
    println!("{line}");
}

/// Prints how many seeds have been run, now and then.
fn report(done: u64, of: u64) {
    if done < of && done.is_multiple_of(REPORT) {
        print(&format!("{done} of {of} seeds hold"));
    }
}

/// Runs seeds until one fails.
fn endless(from: u64, scenario: &(dyn Fn(&mut Cluster) -> Result<(), String> + Sync)) -> ! {
    let mut next = from;
    loop {
        let figures = all(next..next + REPORT, scenario);
        next += REPORT;
        print(&format!("{figures}all seeds below {next} hold: go on with SEEDS={next}.."));
    }
}

/// One run.
fn run(
    repeat: RepeatedRun,
    scenario: &(dyn Fn(&mut Cluster) -> Result<(), String> + Sync),
) -> Result<RunFigures, Box<FailedRun>> {
    let mut cluster = Cluster::repeating(repeat.clone());
    let outcome = catch_unwind(AssertUnwindSafe(|| scenario(&mut cluster)));
    let why = match outcome {
        Ok(Ok(())) => return Ok(RunFigures { seeds: 1, ..cluster.figures() }),
        Ok(Err(why)) => why,
        Err(panic) => format!("panicked: {}", message(&*panic)),
    };
    let nodes = cluster.names().map(str::to_owned).collect();
    Err(Box::new(FailedRun { repeat, why, nodes, struck: cluster.struck().to_vec() }))
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("not with a text")
}

/// The command that runs a test again.
fn command(repeat: &RepeatedRun) -> String {
    let package =
        env::var("CARGO_PKG_NAME").map_or_else(|_| String::new(), |name| format!(" -p {name}"));
    let thread = thread::current();
    let test = thread.name().filter(|name| *name != "main");
    let test = test.map_or_else(String::new, |name| format!(" {name}"));
    format!("again, with its log: SEEDS='{repeat}' cargo test{package}{test}")
}

/// Writes the log of all nodes, each line with the time of day of its node and with its name.
fn log() {
    struct NodeTime;

    impl FormatTime for NodeTime {
        fn format_time(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
            let since = clock::wall().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            write!(writer, "{}.{:03}", since.as_secs(), since.subsec_millis())
        }
    }

    let log = tracing_subscriber::fmt().with_timer(NodeTime).with_thread_names(true);
    let log = log.with_ansi(false).with_max_level(tracing_subscriber::filter::LevelFilter::DEBUG);
    // a test that has set another one keeps it
    let _ = log.try_init();
}
