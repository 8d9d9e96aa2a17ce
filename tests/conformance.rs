//! The conformance programs: FTN12 and the decisions of this project as programs with traces.
//!
//! Each program is interpreted through the public API in virtual time, under several schedules:
//! its trace must not depend on which flow runs first, nor on timers that are a little late.
//!
//! `CONFORMANCE_CORPUS=FILE` runs another corpus (one case, or one per line for `.jsonl`);
//! `CONFORMANCE_ONLY=ID` runs one case and prints its trace. The last line is always
//! `N passed, N failed`, and the exit code tells whether all passed.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

use serde::Deserialize;

use conformance::compare::difference;
use conformance::host;
use conformance::program::Case;
use conformance::schedule::Schedule;

mod conformance {
    pub(crate) mod branches;
    pub(crate) mod compare;
    pub(crate) mod host;
    pub(crate) mod interpret;
    pub(crate) mod program;
    pub(crate) mod promise;
    pub(crate) mod schedule;
    pub(crate) mod trace;
    pub(crate) mod value;
    pub(crate) mod world;
}

/// How many schedules each program runs under: enough that a dependence on the order of flows
/// showed up in every run while this was written, and all programs still take about a second.
const SCHEDULES: u64 = 8;

/// What a case that failed has to say.
struct Failure {
    id: String,
    message: String,
}

fn main() -> io::Result<ExitCode> {
    let mut out = io::stdout().lock();
    let args: Vec<String> = env::args().skip(1).collect();
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    let corpora = corpora();
    if has("--list") {
        // no test is ignored, so the list of ignored ones is empty
        for name in corpora.keys().filter(|_| !has("--ignored")) {
            writeln!(out, "{name}: test")?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let filters: Vec<&String> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
    let chosen = |name: &str| filters.is_empty() || filters.iter().any(|f| name.contains(&**f));
    let (mut passed, mut failed) = (0, 0);
    let only = env::var("CONFORMANCE_ONLY").ok();
    for (_, file) in corpora.iter().filter(|(name, _)| chosen(name)) {
        for text in cases(file)? {
            match run(&mut out, &text, only.as_deref()) {
                None => {}
                Some(Ok(())) => passed += 1,
                Some(Err(Failure { id, message })) => {
                    failed += 1;
                    writeln!(out, "FAILED {id}: {message}")?;
                }
            }
        }
    }
    writeln!(out, "{passed} passed, {failed} failed")?;
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The files with cases, by the name of their test.
fn corpora() -> BTreeMap<String, PathBuf> {
    let name = |file: &Path| file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let files = match env::var_os("CONFORMANCE_CORPUS") {
        Some(file) => vec![PathBuf::from(file)],
        None => ["cases.jsonl", "public.jsonl"]
            .map(|file| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance").join(file))
            .into(),
    };
    files.into_iter().map(|file| (name(&file), file)).collect()
}

/// The cases of a file, each as its text.
fn cases(file: &Path) -> io::Result<Vec<String>> {
    let text = fs::read_to_string(file)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", file.display())))?;
    if file.extension().is_some_and(|extension| extension == "jsonl") {
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        return Ok(lines.map(str::to_owned).collect());
    }
    Ok(vec![text])
}

/// Runs one case; `None` if it is not wanted.
fn run(out: &mut impl Write, text: &str, only: Option<&str>) -> Option<Result<(), Failure>> {
    let case = match parse(text) {
        Ok(case) => case,
        Err(error) => {
            let id = text.chars().take(60).collect();
            return Some(Err(Failure { id, message: format!("no case: {error}") }));
        }
    };
    if only.is_some_and(|only| only != case.id) {
        return None;
    }
    if only.is_some() {
        let trace = host::run(&case.program, Schedule::new(0));
        // a closed pipe ends the trace, not the run
        let _ = writeln!(out, "{}: {}\n{trace}", case.id, case.about);
    }
    Some((0..SCHEDULES).try_for_each(|seed| check(&case, Schedule::new(seed))))
}

fn check(case: &Case, schedule: Schedule) -> Result<(), Failure> {
    let actual = host::run(&case.program, schedule);
    match difference(&case.program, &case.expected, &actual, schedule.is_exact()) {
        None => Ok(()),
        Some(difference) => {
            let expected = &case.expected.trace;
            let message = format!(
                "{difference}\n  {}\n  with {schedule:?}\n  expected:\n{expected}  actual:\n{actual}",
                case.about
            );
            Err(Failure { id: case.id.clone(), message })
        }
    }
}

/// Programs nest deeper than the parser's own limit allows.
fn parse(text: &str) -> serde_json::Result<Case> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    deserializer.disable_recursion_limit();
    let case = Case::deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(case)
}
