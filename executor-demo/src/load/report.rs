//! The report of a load.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::measured::{FunctionTimes, LatencyHistogram, ms};
use super::run::Run;

/// The report of a load. Times are in microseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Report {
    /// Requests per second that were due.
    pub rate: f64,
    /// Answers per second, from the first request to the last answer.
    pub answers_per_second: f64,
    /// Requests that were answered.
    pub answered: u64,
    /// Requests that were sent, and not answered.
    pub unanswered: u64,
    /// Answers beyond one per request.
    pub unasked: u64,
    /// Requests that were not sent, because too many were in flight.
    pub held_back: u64,
    /// How late requests were sent.
    pub late: Percentiles,
    /// How long requests waited until one of the connections was free; not there in older reports.
    #[serde(default)]
    pub connection: Option<Percentiles>,
    /// The times of each function, and of all together under the name `all`.
    pub functions: BTreeMap<String, FunctionReport>,
    /// Errors and missing answers, the most frequent ones first.
    pub errors: Vec<ErrorCount>,
    /// The highest rate within the limit, if it was looked for.
    pub knee: Option<Saturation>,
    /// Differences of the server from its answers.
    pub mismatches: Vec<String>,
    /// Checks that there was no time for. A report that was written before the check ended says
    /// that.
    #[serde(default)]
    pub not_checked: Vec<String>,
}

/// Whether every request got one answer, and the server's state matches its answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "what a check can come to")]
pub enum Consistency {
    /// It is so.
    AddsUp,
    /// Nothing is known to be wrong, but not all could be checked in the patience of the options.
    NotChecked,
    /// It is not so.
    Wrong,
}

/// The saturation point of a server: the highest rate within its limits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Saturation {
    /// It is this, in requests per second.
    At(f64),
    /// It does not sustain the lowest rate.
    None,
}

/// The times of one function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FunctionReport {
    /// Its answers.
    pub count: u64,
    /// From when a request was due to its answer.
    pub response: Percentiles,
    /// From when it was sent, on a connection that was free, to its answer.
    pub service: Percentiles,
}

/// Percentiles of times, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
#[non_exhaustive]
pub struct Percentiles {
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub p99_9: u64,
    pub p99_99: u64,
    pub max: u64,
}

/// How often a function failed with a code, or was not answered for a reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
#[non_exhaustive]
pub struct ErrorCount {
    pub function: String,
    pub code: String,
    pub count: u64,
}

impl Report {
    /// A report of the measurements; it is not checked yet.
    pub(super) fn new(run: &Run, knee: Option<Saturation>) -> Self {
        let measured = &run.measured;
        let functions = measured.times();
        let errors = measured.errors.iter().map(|((function, code), count)| ErrorCount {
            function: (*function).to_owned(),
            code: code.clone(),
            count: *count,
        });
        let mut errors: Vec<ErrorCount> = errors.collect();
        errors.sort_by_key(|error| Reverse(error.count));
        let answered = measured.all.response.count();
        #[expect(clippy::cast_precision_loss, reason = "a rate to show")]
        let answers_per_second = answered as f64 / run.took.as_secs_f64();
        Self {
            rate: run.rate,
            answers_per_second,
            answered,
            unanswered: measured.unanswered,
            unasked: 0,
            held_back: measured.held_back,
            late: Percentiles::of(&measured.late),
            connection: Some(Percentiles::of(&measured.connection)),
            functions: functions.map(|(name, times)| (name.to_owned(), times.into())).collect(),
            errors,
            knee,
            mismatches: Vec::new(),
            not_checked: vec!["nothing is checked yet".to_owned()],
        }
    }

    /// Whether every request got one answer, and the server's state matches its answers.
    #[must_use]
    pub fn verdict(&self) -> Consistency {
        if self.unanswered > 0 || self.unasked > 0 || !self.mismatches.is_empty() {
            return Consistency::Wrong;
        }
        if self.not_checked.is_empty() { Consistency::AddsUp } else { Consistency::NotChecked }
    }

    /// The report that an earlier run wrote.
    ///
    /// # Errors
    /// If the file cannot be read, or is no report.
    pub fn read(file: &Path) -> anyhow::Result<Self> {
        let text = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("{} is no report", file.display()))
    }

    /// Writes it as JSON.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, file: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_vec_pretty(self)?;
        fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
    }

    /// The measurements, as a table.
    #[must_use]
    pub fn measurements(&self) -> impl fmt::Display {
        Measurements(self)
    }

    /// The findings of the check, as lines; the last one says whether everything adds up.
    #[must_use]
    pub fn found(&self) -> impl fmt::Display {
        Findings(self)
    }

    /// Compares the times with the times of an earlier report, as a table.
    #[must_use]
    pub fn compared_with<'a>(&'a self, before: &'a Self) -> impl fmt::Display {
        Compared { before, now: self }
    }
}

impl From<&FunctionTimes> for FunctionReport {
    fn from(times: &FunctionTimes) -> Self {
        Self {
            count: times.response.count(),
            response: Percentiles::of(&times.response),
            service: Percentiles::of(&times.service),
        }
    }
}

impl Percentiles {
    fn of(times: &LatencyHistogram) -> Self {
        Self {
            p50: times.quantile(0.5),
            p90: times.quantile(0.9),
            p99: times.quantile(0.99),
            p99_9: times.quantile(0.999),
            p99_99: times.quantile(0.9999),
            max: times.max(),
        }
    }

    fn columns(&self) -> [u64; 6] {
        [self.p50, self.p90, self.p99, self.p99_9, self.p99_99, self.max]
    }
}

const HEAD: &str = "     p50      p90      p99    p99.9   p99.99      max";

/// The most errors that are shown, each with its function.
const ERRORS: usize = 20;

/// Text of a server, as one line that does not change the terminal on which it is shown.
struct Foreign<'a>(&'a str);

impl fmt::Display for Foreign<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|char| match char {
            '"' | '\'' | '\\' => write!(f, "{char}"),
            _ => write!(f, "{}", char.escape_debug()),
        })
    }
}

struct Measurements<'a>(&'a Report);

impl fmt::Display for Measurements<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(report) = self;
        writeln!(f, "milliseconds                  answers {HEAD}")?;
        for (name, function) in &report.functions {
            let FunctionReport { count, response, service } = function;
            writeln!(f, "{name:27} {count:9} {response}")?;
            writeln!(f, "  from when it was sent               {service}")?;
        }
        writeln!(f, "sent too late by                      {}", report.late)?;
        if let Some(connection) = report.connection {
            writeln!(f, "waited for a free connection          {connection}")?;
        }
        writeln!(
            f,
            "{:.0} requests/s were due, {:.0} answers/s came; {} answered, {} not, {} held back",
            report.rate,
            report.answers_per_second,
            report.answered,
            report.unanswered,
            report.held_back
        )?;
        for ErrorCount { function, code, count } in report.errors.iter().take(ERRORS) {
            writeln!(f, "{count:9} {function}: {}", Foreign(code))?;
        }
        if let Some(others @ 1..) = report.errors.len().checked_sub(ERRORS) {
            writeln!(f, "{others:9} others")?;
        }
        match report.knee {
            Some(Saturation::At(rate)) => {
                writeln!(f, "the highest rate within the limit: {rate:.0}/s")?;
            }
            Some(Saturation::None) => writeln!(f, "no rate is within the limit")?,
            None => {}
        }
        Ok(())
    }
}

struct Findings<'a>(&'a Report);

impl fmt::Display for Findings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(report) = self;
        if report.unasked > 0 {
            writeln!(f, "{} answers more than requests", report.unasked)?;
        }
        for mismatch in &report.mismatches {
            writeln!(f, "wrong: {}", Foreign(mismatch))?;
        }
        for what in &report.not_checked {
            writeln!(f, "not checked: {}", Foreign(what))?;
        }
        f.write_str(match report.verdict() {
            Consistency::AddsUp => "every request got one answer; stock, orders and money add up",
            Consistency::NotChecked => {
                "every request got one answer, but not all is checked: a longer --patience may help"
            }
            Consistency::Wrong => "IT DOES NOT ADD UP",
        })
    }
}

impl fmt::Display for Percentiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for time in self.columns() {
            write!(f, "{:8.2} ", ms(time))?;
        }
        Ok(())
    }
}

/// Two reports side by side.
struct Compared<'a> {
    before: &'a Report,
    now: &'a Report,
}

impl fmt::Display for Compared<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "times of what was before              {HEAD}")?;
        for (name, now) in &self.now.functions {
            let Some(before) = self.before.functions.get(name) else { continue };
            write!(f, "\n{name:37}")?;
            for (now, before) in now.response.columns().into_iter().zip(before.response.columns()) {
                write!(f, " {:8.2}", ms(now) / ms(before))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::load::client::Answer;
    use crate::load::measured::Measured;

    /// The report of a run whose requests failed with these codes.
    fn report(codes: &[String]) -> Report {
        let mut measured = Measured::new().expect("bounds of times");
        for code in codes {
            let error = Answer::Error(code.clone());
            measured.record("demo.shop:1.0:order", &error, Duration::ZERO, Duration::ZERO);
        }
        Report::new(&Run { rate: 1.0, measured, took: Duration::from_secs(1) }, None)
    }

    #[test]
    fn text_of_the_server_does_not_change_the_terminal() {
        let codes = ["\u{1b}[2Jevil\r\nwrong: lie", "\u{9b}31m\u{202e}", &"x".repeat(100)];
        let told = report(&codes.map(str::to_owned)).measurements().to_string();
        let errors: Vec<&str> = told.lines().filter(|line| line.contains(":order: ")).collect();
        assert_eq!(
            errors,
            [
                r"        1 demo.shop:1.0:order: \u{1b}[2Jevil\r\nwrong: lie",
                &format!("        1 demo.shop:1.0:order: {}...", "x".repeat(64)),
                r"        1 demo.shop:1.0:order: \u{9b}31m\u{202e}",
            ]
        );

        let mut report = report(&[]);
        report.mismatches = vec!["stock: Error(\"\u{1b}[2J\n\")".to_owned()];
        report.not_checked = Vec::new();
        let told = report.found().to_string();
        assert_eq!(told, "wrong: stock: Error(\"\\u{1b}[2J\\n\")\nIT DOES NOT ADD UP");
        assert_eq!(report.verdict(), Consistency::Wrong);
    }

    #[test]
    fn what_is_not_checked_is_not_wrong() {
        let mut report = report(&[]);
        assert_eq!(report.verdict(), Consistency::NotChecked);
        let told = report.found().to_string();
        assert!(told.starts_with("not checked: nothing is checked yet\nevery request"), "{told}");
        report.not_checked = Vec::new();
        assert_eq!(report.verdict(), Consistency::AddsUp);
    }

    #[test]
    fn few_codes_are_shown_and_the_others_counted() {
        let codes: Vec<String> = (0..500).map(|code| format!("Code{code:03}")).collect();
        let told = |codes: &[String]| report(codes).measurements().to_string();
        let shown = |told: &str| told.lines().filter(|line| line.contains(": Code")).count();
        let all = told(&codes);
        assert_eq!(shown(&all), 20);
        assert!(all.contains("\n      480 others\n"), "{all}");
        let often = [&codes[..], &codes[499..]].concat();
        assert!(told(&often).contains("2 demo.shop:1.0:order: Code499"), "the most frequent first");
        let few = told(&codes[..20]);
        assert_eq!(shown(&few), 20);
        assert!(!few.contains("others"), "{few}");
    }
}
