//! Distributions as text, in the format that HdrHistogram's tools read and plot.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context as _;

use super::measured::{LatencyHistogram, Measured, ms};

/// Writes the response times of each function, and of all, into a folder, which is created.
pub(super) fn write(measured: &Measured, folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for (function, times) in measured.times() {
        // names of functions have colons, which not every file system takes
        let file = folder.join(format!("{}.hgrm", function.replace(':', "_")));
        fs::write(&file, text(&times.response))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

/// A distribution, in milliseconds.
fn text(times: &LatencyHistogram) -> String {
    let mut text = String::from("       Value     Percentile TotalCount 1/(1-Percentile)\n\n");
    for (share, time, count) in times.points() {
        let time = ms(time);
        // writing to a string does not fail
        let _ = match share < 1.0 {
            true => {
                writeln!(text, "{time:12.3} {share:.12} {count:10} {:14.2}", 1.0 / (1.0 - share))
            }
            false => writeln!(text, "{time:12.3} {share:.12} {count:10}"),
        };
    }
    let (mean, deviation) = (times.mean() / 1000.0, times.deviation() / 1000.0);
    let (max, count) = (ms(times.max()), times.count());
    let _ = writeln!(text, "#[Mean    = {mean:12.3}, StdDeviation   = {deviation:12.3}]");
    let _ = writeln!(text, "#[Max     = {max:12.3}, Total count    = {count:12}]");
    text
}
