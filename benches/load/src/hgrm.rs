//! Distributions as text, in the format that HdrHistogram's tools read and plot.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Context as _;
use hdrhistogram::Histogram;

use crate::measured::{Measured, ms};

/// Points of the distribution in each half of what is left.
const POINTS: u32 = 5;

/// Writes the response times of each function, and of all, into a folder, which is created.
pub(crate) fn write(measured: &Measured, folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for (function, times) in measured.times() {
        // names of functions have colons, which not every file system takes
        let file = folder.join(format!("{}.hgrm", function.replace(':', "_")));
        write_times(&times.response.0, &file)
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

/// A distribution, in milliseconds.
fn write_times(times: &Histogram<u64>, file: &Path) -> anyhow::Result<()> {
    let mut file = BufWriter::new(File::create(file)?);
    writeln!(file, "       Value     Percentile TotalCount 1/(1-Percentile)\n")?;
    let mut count = 0;
    for point in times.iter_quantiles(POINTS) {
        count += point.count_since_last_iteration();
        let (time, share) = (ms(point.value_iterated_to()), point.quantile_iterated_to());
        write!(file, "{time:12.3} {share:.12} {count:10}")?;
        if share < 1.0 {
            write!(file, " {:14.2}", 1.0 / (1.0 - share))?;
        }
        writeln!(file)?;
    }
    let (mean, deviation) = (times.mean() / 1000.0, times.stdev() / 1000.0);
    let (max, count) = (ms(times.max()), times.len());
    writeln!(file, "#[Mean    = {mean:12.3}, StdDeviation   = {deviation:12.3}]")?;
    writeln!(file, "#[Max     = {max:12.3}, Total count    = {count:12}]")?;
    Ok(file.flush()?)
}
