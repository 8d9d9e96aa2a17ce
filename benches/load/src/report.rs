//! The report of a load.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::measured::{FunctionTimes, LatencyHistogram, ms};
use crate::run::Run;

/// The report of a load. Times are in microseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    /// Requests per second that were due.
    rate: f64,
    /// Answers per second, from the first request to the last answer.
    answers_per_second: f64,
    /// Requests that were answered.
    answered: u64,
    /// Requests that were sent, and not answered.
    unanswered: u64,
    /// Answers beyond one per request.
    pub(crate) unasked: u64,
    /// Requests that were not sent, because too many were in flight.
    held_back: u64,
    /// How late requests were sent.
    late: Percentiles,
    /// How long requests waited until one of the connections was free.
    connection: Percentiles,
    /// The times of each function, and of all together under the name `all`.
    functions: BTreeMap<String, FunctionReport>,
    /// Errors and missing answers, the most frequent ones first.
    errors: Vec<ErrorCount>,
    /// The highest rate within the limit, if it was looked for.
    saturation: Option<Saturation>,
    /// Differences of the server from its answers.
    pub(crate) mismatches: Vec<String>,
    /// Checks that there was no time for. A report that was written before the check ended says
    /// that.
    pub(crate) not_checked: Vec<String>,
}

/// Whether every request got one answer, and the server's state matches its answers; the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Consistency {
    /// It is so.
    AddsUp = 0,
    /// It is not so.
    Wrong = 1,
    /// Nothing is known to be wrong, but not all could be checked in the patience of the options.
    NotChecked = 3,
}

/// The saturation point of a server: the highest rate within its limits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Saturation {
    /// It is this, in requests per second.
    At(f64),
    /// It does not sustain the lowest rate.
    None,
}

/// The times of one function.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct FunctionReport {
    /// Its answers.
    count: u64,
    /// From when a request was due to its answer.
    response: Percentiles,
    /// From when it was sent, on a connection that was free, to its answer.
    service: Percentiles,
}

/// Percentiles of times, in microseconds, by their names in [`SHARES`].
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Percentiles(BTreeMap<String, u64>);

/// Which percentiles, in the order in which they are shown.
const SHARES: [(&str, f64); 6] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99_9", 0.999), ("p99_99", 0.9999), ("max", 1.0)];

/// How often a function failed with a code, or was not answered for a reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ErrorCount {
    function: String,
    code: String,
    count: u64,
}

const HEAD: &str = "     p50      p90      p99    p99.9   p99.99      max";

/// The most errors that are shown, each with its function.
const ERRORS: usize = 20;

impl Report {
    /// A report of the measurements; it is not checked yet.
    pub(crate) fn new(run: &Run, saturation: Option<Saturation>) -> Self {
        let measured = &run.measured;
        let errors = measured.errors.iter().map(|((function, code), count)| ErrorCount {
            function: (*function).to_owned(),
            code: code.clone(),
            count: *count,
        });
        let mut errors: Vec<ErrorCount> = errors.collect();
        errors.sort_by_key(|error| Reverse(error.count));
        let functions = measured.times().map(|(name, times)| (name.to_owned(), times.into()));
        let answered = measured.all.response.0.len();
        #[expect(clippy::cast_precision_loss, reason = "a rate to show")]
        let answers_per_second = answered as f64 / run.took.as_secs_f64();
        Self {
            rate: run.rate,
            answers_per_second,
            answered,
            unanswered: measured.unanswered,
            unasked: 0,
            held_back: measured.held_back,
            late: (&measured.late).into(),
            connection: (&measured.connection).into(),
            functions: functions.collect(),
            errors,
            saturation,
            mismatches: Vec::new(),
            not_checked: vec!["nothing is checked yet".to_owned()],
        }
    }

    /// Whether every request got one answer, and the server's state matches its answers.
    pub(crate) fn consistency(&self) -> Consistency {
        if self.unanswered > 0 || self.unasked > 0 || !self.mismatches.is_empty() {
            return Consistency::Wrong;
        }
        if self.not_checked.is_empty() { Consistency::AddsUp } else { Consistency::NotChecked }
    }

    /// The report that an earlier run wrote.
    pub(crate) fn read(file: &Path) -> anyhow::Result<Self> {
        let text = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("{} is no report", file.display()))
    }

    /// Writes it as JSON, if there is a file for it.
    pub(crate) fn write(&self, file: Option<&Path>) -> anyhow::Result<()> {
        let Some(file) = file else { return Ok(()) };
        fs::write(file, serde_json::to_vec_pretty(self)?)
            .with_context(|| format!("cannot write {}", file.display()))
    }

    /// Prints the measurements, as a table.
    pub(crate) fn write_measurements(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "milliseconds                  answers {HEAD}")?;
        for (name, FunctionReport { count, response, service }) in &self.functions {
            writeln!(out, "{name:27} {count:9} {response}")?;
            writeln!(out, "  from when it was sent               {service}")?;
        }
        writeln!(out, "sent too late by                      {}", self.late)?;
        writeln!(out, "waited for a free connection          {}", self.connection)?;
        writeln!(
            out,
            "{:.0} requests/s were due, {:.0} answers/s came; {} answered, {} not, {} held back",
            self.rate, self.answers_per_second, self.answered, self.unanswered, self.held_back
        )?;
        for ErrorCount { function, code, count } in self.errors.iter().take(ERRORS) {
            writeln!(out, "{count:9} {function}: {}", one_line(code))?;
        }
        if let Some(others @ 1..) = self.errors.len().checked_sub(ERRORS) {
            writeln!(out, "{others:9} others")?;
        }
        match self.saturation {
            Some(Saturation::At(rate)) => {
                writeln!(out, "the highest rate within the limit: {rate:.0}/s")
            }
            Some(Saturation::None) => writeln!(out, "no rate is within the limit"),
            None => Ok(()),
        }
    }

    /// Prints the findings of the check; the last line says whether everything adds up.
    pub(crate) fn write_findings(&self, out: &mut impl Write) -> io::Result<()> {
        if self.unasked > 0 {
            writeln!(out, "{} answers more than requests", self.unasked)?;
        }
        for mismatch in &self.mismatches {
            writeln!(out, "wrong: {}", one_line(mismatch))?;
        }
        for what in &self.not_checked {
            writeln!(out, "not checked: {}", one_line(what))?;
        }
        let told = match self.consistency() {
            Consistency::AddsUp => "every request got one answer; stock, orders and money add up",
            Consistency::NotChecked => {
                "every request got one answer, but not all is checked: a longer --patience may help"
            }
            Consistency::Wrong => "IT DOES NOT ADD UP",
        };
        writeln!(out, "{told}")
    }

    /// Prints the times as multiples of those of an earlier report, as a table.
    pub(crate) fn write_compared(&self, before: &Self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "times of what was before              {HEAD}")?;
        for (name, now) in &self.functions {
            let Some(before) = before.functions.get(name) else { continue };
            write!(out, "{name:37}")?;
            for (now, before) in now.response.columns().zip(before.response.columns()) {
                write!(out, " {:8.2}", now / before)?;
            }
            writeln!(out)?;
        }
        Ok(())
    }
}

impl From<&FunctionTimes> for FunctionReport {
    fn from(FunctionTimes { response, service }: &FunctionTimes) -> Self {
        Self { count: response.0.len(), response: response.into(), service: service.into() }
    }
}

impl From<&LatencyHistogram> for Percentiles {
    fn from(LatencyHistogram(times): &LatencyHistogram) -> Self {
        let at = |(name, share): (&str, _)| (name.to_owned(), times.value_at_quantile(share));
        Self(SHARES.into_iter().map(at).collect())
    }
}

impl Percentiles {
    /// The percentiles in milliseconds, as they are shown.
    fn columns(&self) -> impl Iterator<Item = f64> {
        SHARES.into_iter().map(|(name, _)| self.0.get(name).copied().map_or(f64::NAN, ms))
    }
}

impl fmt::Display for Percentiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.columns().try_for_each(|time| write!(f, "{time:8.2} "))
    }
}

/// Text of a server, as one line that does not change the terminal on which it is shown.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::new();
    for char in text.chars() {
        match char {
            '"' | '\'' | '\\' => line.push(char),
            _ => line.extend(char.escape_debug()),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::client::Answer;
    use crate::measured::Measured;

    /// The report of a run whose requests failed with these codes.
    fn report(codes: &[String]) -> Report {
        let mut measured = Measured::default();
        for code in codes {
            let error = Answer::Error(code.clone());
            measured.record("demo.shop:1.0:order", &error, Duration::ZERO, Duration::ZERO);
        }
        Report::new(&Run { rate: 1.0, measured, took: Duration::from_secs(1) }, None)
    }

    fn printed(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).expect("memory");
        String::from_utf8(out).expect("text")
    }

    fn measurements(codes: &[String]) -> String {
        printed(|out| report(codes).write_measurements(out))
    }

    #[test]
    fn text_of_the_server_does_not_change_the_terminal() {
        let codes = ["\u{1b}[2Jevil\r\nwrong: lie", "\u{9b}31m\u{202e}", &"x".repeat(100)];
        let told = measurements(&codes.map(str::to_owned));
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
        let told = printed(|out| report.write_findings(out));
        assert_eq!(told, "wrong: stock: Error(\"\\u{1b}[2J\\n\")\nIT DOES NOT ADD UP\n");
        assert_eq!(report.consistency(), Consistency::Wrong);
    }

    #[test]
    fn what_is_not_checked_is_not_wrong() {
        let mut report = report(&[]);
        assert_eq!(report.consistency(), Consistency::NotChecked);
        let told = printed(|out| report.write_findings(out));
        assert!(told.starts_with("not checked: nothing is checked yet\nevery request"), "{told}");
        report.not_checked = Vec::new();
        assert_eq!(report.consistency(), Consistency::AddsUp);
    }

    #[test]
    fn few_codes_are_shown_and_the_others_counted() {
        let codes: Vec<String> = (0..500).map(|code| format!("Code{code:03}")).collect();
        let shown = |told: &str| told.lines().filter(|line| line.contains(": Code")).count();
        let all = measurements(&codes);
        assert_eq!(shown(&all), 20);
        assert!(all.contains("\n      480 others\n"), "{all}");
        let often = [&codes[..], &codes[499..]].concat();
        assert!(
            measurements(&often).contains("2 demo.shop:1.0:order: Code499"),
            "the most frequent first"
        );
        let few = measurements(&codes[..20]);
        assert_eq!(shown(&few), 20);
        assert!(!few.contains("others"), "{few}");
    }
}
