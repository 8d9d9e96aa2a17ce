//! What benches share: one table at the end, printed and written as `target/bench/NAME.tsv`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use serde_json::Value;

/// The rows of a bench, each a figure against a baseline of the same run.
#[derive(Debug)]
pub(crate) struct Table {
    name: &'static str,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    workload: String,
    value: f64,
    unit: &'static str,
    baseline: Option<f64>,
    target: &'static str,
}

impl Table {
    /// An empty table for the bench of this name.
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, rows: Vec::new() }
    }

    /// Adds the median time of a criterion benchmark of this run, in nanoseconds per item, and its
    /// ratio to that of another one.
    pub(crate) fn time(
        &mut self,
        group: &str,
        id: &str,
        baseline: Option<&str>,
        items: u32,
        target: &'static str,
    ) {
        let median = |id: &str| median(group, id).map(|time| time / f64::from(items));
        let Some(value) = median(id) else { return };
        let baseline = baseline.and_then(median);
        let workload = format!("{group}/{id}");
        self.rows.push(Row { workload, value, unit: "ns", baseline, target });
    }

    /// Adds a figure that was counted.
    pub(crate) fn count(
        &mut self,
        workload: &str,
        value: f64,
        unit: &'static str,
        target: &'static str,
    ) {
        let workload = workload.to_owned();
        self.rows.push(Row { workload, value, unit, baseline: None, target });
    }

    /// Prints the table and writes it as tab-separated values.
    #[expect(clippy::print_stdout, reason = "a bench is there to print")]
    pub(crate) fn finish(&self) {
        println!(
            "\n{:<44} {:>10} {:<6} {:>10} {:>7}  target",
            "workload", "value", "", "baseline", "ratio"
        );
        let mut tsv = "workload\tvalue\tunit\tbaseline\tratio\ttarget\n".to_owned();
        for row in &self.rows {
            let number =
                |value: Option<f64>| value.map_or_else(String::new, |it| format!("{it:.2}"));
            let baseline = number(row.baseline);
            let ratio = number(row.baseline.map(|baseline| row.value / baseline));
            let Row { workload, value, unit, target, .. } = row;
            println!("{workload:<44} {value:>10.1} {unit:<6} {baseline:>10} {ratio:>7}  {target}");
            // writing to a string cannot fail
            let _ = writeln!(tsv, "{workload}\t{value:.2}\t{unit}\t{baseline}\t{ratio}\t{target}");
        }
        let folder = target_folder().join("bench");
        let file = folder.join(format!("{}.tsv", self.name));
        match fs::create_dir_all(&folder).and_then(|()| fs::write(&file, tsv)) {
            Ok(()) => println!("written to {}", file.display()),
            Err(error) => println!("cannot write {}: {error}", file.display()),
        }
    }
}

/// The median that criterion has just written, in nanoseconds; `None` if the benchmark did not run.
fn median(group: &str, id: &str) -> Option<f64> {
    let file = target_folder().join("criterion").join(group).join(id).join("new/estimates.json");
    let estimates: Value = serde_json::from_str(&fs::read_to_string(file).ok()?).ok()?;
    estimates["median"]["point_estimate"].as_f64()
}

fn target_folder() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("target"), PathBuf::from)
}
