//! What benches share: paired rounds, and one table at the end, printed and written as
//! `target/bench/NAME.tsv`.
//!
//! All workloads of a bench take turns in short batches. On a machine whose speed drifts, the
//! ratio of two batches that ran one after the other holds where the ratio of two long runs does
//! not; the table has the medians over all rounds.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs};

/// How long one batch of one workload takes, about, and how often each workload has its turn.
const TURNS: (Duration, usize) = (Duration::from_millis(2), 300);

/// A named set of workloads and counted figures.
pub(crate) struct Bench<'a> {
    name: &'static str,
    /// How long a batch takes, and how many there are: short ones, unless a workload does something now and
    /// then, which the median of short batches would not see.
    pub(crate) turns: (Duration, usize),
    workloads: Vec<Workload<'a>>,
    counts: Vec<Count>,
}

struct Workload<'a> {
    id: String,
    baseline: Option<usize>,
    /// Items of one iteration; times are per item.
    items: u32,
    target: &'static str,
    run: Box<dyn FnMut(u32) -> Duration + 'a>,
    iterations: u32,
    /// Nanoseconds per item, by round.
    times: Vec<f64>,
}

/// What a batch says about its time: nothing, and the clock on the wall counts, or how long it took,
/// such as the processor time of another process.
pub(crate) trait Taken {
    /// How long the batch took, which was `wall` on the clock.
    fn taken(self, wall: Duration) -> Duration;
}

impl Taken for () {
    fn taken(self, wall: Duration) -> Duration {
        wall
    }
}

impl Taken for Duration {
    fn taken(self, _: Duration) -> Duration {
        self
    }
}

struct Count {
    id: String,
    value: f64,
    unit: &'static str,
    target: &'static str,
}

impl<'a> Bench<'a> {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, turns: TURNS, workloads: Vec::new(), counts: Vec::new() }
    }

    /// Adds a workload: `run` does so many iterations of it. Gives its place, as a baseline for
    /// others.
    pub(crate) fn add<T: Taken + 'a>(
        &mut self,
        id: impl Into<String>,
        baseline: Option<usize>,
        items: u32,
        target: &'static str,
        run: impl FnMut(u32) -> T + 'a,
    ) -> usize {
        let (run, id) = (Box::new(timed(run)), id.into());
        let times = Vec::with_capacity(self.turns.1);
        self.workloads.push(Workload { id, baseline, items, target, run, iterations: 1, times });
        self.workloads.len() - 1
    }

    /// Adds a figure that was counted.
    pub(crate) fn count(
        &mut self,
        id: impl Into<String>,
        value: f64,
        unit: &'static str,
        target: &'static str,
    ) {
        self.counts.push(Count { id: id.into(), value, unit, target });
    }

    /// Runs all rounds, prints the table and writes it as tab-separated values.
    ///
    /// With `--test`, as `cargo test --benches` calls it, each workload runs once and nothing is
    /// written.
    pub(crate) fn finish(mut self) {
        if env::args().any(|arg| arg == "--test") {
            for workload in &mut self.workloads {
                // it only has to work
                let _ = (workload.run)(1);
            }
            return;
        }
        let (batch, rounds) = self.turns;
        self.workloads.iter_mut().for_each(|workload| workload.calibrate(batch));
        for _ in 0..rounds {
            self.workloads.iter_mut().for_each(Workload::round);
        }
        self.report();
    }

    #[expect(clippy::print_stdout, reason = "a bench is there to print")]
    fn report(&self) {
        let mut tsv = "workload\tvalue\tunit\tbaseline\tratio\ttarget\n".to_owned();
        println!(
            "{:<44} {:>9} {:<5} {:>9} {:>7} {:>15}  target",
            "workload", "value", "", "baseline", "ratio", "p25 .. p75"
        );
        for Row { id, value, unit, baseline, ratio, quarters, target } in self.rows() {
            println!(
                "{id:<44} {value:>9} {unit:<5} {baseline:>9} {ratio:>7} {quarters:>15}  {target}"
            );
            // writing to a string cannot fail
            let _ = writeln!(tsv, "{id}\t{value}\t{unit}\t{baseline}\t{ratio}\t{target}");
        }
        let folder = target_folder().join("bench");
        let file = folder.join(format!("{}.tsv", self.name));
        match fs::create_dir_all(&folder).and_then(|()| fs::write(&file, tsv)) {
            Ok(()) => println!("written to {}", file.display()),
            Err(error) => println!("cannot write {}: {error}", file.display()),
        }
    }

    fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        let times = self.workloads.iter().map(|workload| {
            let times = Sorted::new(workload.times.iter().copied());
            let baseline = workload.baseline.map(|at| &self.workloads[at].times);
            let ratios = baseline.map(|baseline| {
                Sorted::new(workload.times.iter().zip(baseline).map(|(time, base)| time / base))
            });
            let baseline = baseline.map(|times| Sorted::new(times.iter().copied()).median());
            Row {
                id: &workload.id,
                value: number(times.median()),
                unit: "ns",
                baseline: baseline.map(number).unwrap_or_default(),
                ratio: ratios.as_ref().map(|ratios| number(ratios.median())).unwrap_or_default(),
                quarters: ratios.as_ref().unwrap_or(&times).quarters(),
                target: workload.target,
            }
        });
        let counts = self.counts.iter().map(|count| Row {
            id: &count.id,
            value: number(count.value),
            unit: count.unit,
            target: count.target,
            ..Row::default()
        });
        times.chain(counts)
    }
}

/// A line of the table.
#[derive(Default)]
struct Row<'a> {
    id: &'a str,
    value: String,
    unit: &'a str,
    baseline: String,
    ratio: String,
    /// The middle half of all rounds is between these two: of the ratio, or of the value of a row without one.
    quarters: String,
    target: &'a str,
}

impl Workload<'_> {
    /// Finds how many iterations a batch has; warms up on the way.
    fn calibrate(&mut self, batch: Duration) {
        while (self.run)(self.iterations) < batch && self.iterations < u32::MAX / 2 {
            self.iterations *= 2;
        }
    }

    fn round(&mut self) {
        let items = f64::from(self.iterations) * f64::from(self.items);
        let time = (self.run)(self.iterations).as_secs_f64() * 1e9 / items;
        self.times.push(time);
    }
}

#[expect(clippy::disallowed_methods, reason = "a bench measures real time")]
fn timed<T: Taken>(mut run: impl FnMut(u32) -> T) -> impl FnMut(u32) -> Duration {
    move |iterations| {
        let start = Instant::now();
        let told = run(iterations);
        told.taken(start.elapsed())
    }
}

/// The values of all rounds, in ascending order.
struct Sorted(Vec<f64>);

impl Sorted {
    fn new(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    fn median(&self) -> f64 {
        self.quarter(2)
    }

    /// The value that so many quarters of all are below.
    fn quarter(&self, number: usize) -> f64 {
        self.0.get(self.0.len() * number / 4).copied().unwrap_or(f64::NAN)
    }

    fn quarters(&self) -> String {
        format!("{} .. {}", number(self.quarter(1)), number(self.quarter(3)))
    }
}

fn number(value: f64) -> String {
    if value < 100.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

fn target_folder() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("target"), PathBuf::from)
}
