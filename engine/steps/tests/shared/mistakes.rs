//! Programs with mistakes, and what the compiler says to them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

/// The compiler whose messages are recorded; others word them differently.
const RECORDED_WITH: &str = "rustc 1.95.0 ";

/// Records the messages instead of comparing them.
const RECORD: &str = "RECORD_MESSAGES";

/// Checks that each program of the folder `programs` is refused, with the message beside it; with
/// another compiler than that of the record, that it is refused.
///
/// They are compiled with `dependencies`, those of the test, by arguments of rustc. With
/// `RECORD_MESSAGES=1` the messages are recorded.
pub(crate) fn check(programs: &str, dependencies: &[&str]) {
    let (records, is_recorded) =
        (env::var_os(RECORD).is_some(), version().starts_with(RECORDED_WITH));
    let mut wrong = String::new();
    for program in files(programs) {
        let (output, message) = compile(&program, dependencies);
        let record = program.with_extension("stderr");
        let expected = fs::read_to_string(&record).unwrap_or_default();
        let text = match () {
            () if output.status.success() => "it compiles".to_owned(),
            () if records => {
                fs::write(&record, &message).expect("a record");
                continue;
            }
            () if !is_recorded || message == expected => continue,
            () => format!("expected:\n{expected}\ninstead:\n{message}"),
        };
        // writing to a string cannot fail
        let _ = writeln!(wrong, "{}: {text}\n", program.display());
    }
    assert!(wrong.is_empty(), "{wrong}{RECORD}=1 records the messages");
}

/// The programs of a folder, by their names.
fn files(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of programs");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("a file").path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "rs"));
    files.sort();
    assert!(!files.is_empty(), "no programs in {folder}");
    files
}

fn rustc() -> Command {
    Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
}

fn version() -> String {
    let output = rustc().arg("--version").output().expect("there is a compiler");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Compiles a program; gives what the compiler says about it, without what differs between machines.
///
/// The compiler runs where cargo runs it, so that it finds the sources of this workspace.
fn compile(program: &Path, dependencies: &[&str]) -> (Output, String) {
    let program = fs::canonicalize(program).expect("a program");
    let mut folders = program.ancestors();
    let workspace = folders.find(|folder| folder.join("Cargo.lock").exists()).expect("a workspace");
    let program = program.strip_prefix(workspace).expect("inside of it");
    let output = rustc()
        .args(["--edition=2024", "--crate-type=bin", "--emit=metadata", "-Adead_code"])
        .args(["--color=never", "--out-dir", env!("CARGO_TARGET_TMPDIR")])
        .args(dependencies)
        .arg(program)
        .current_dir(workspace)
        .output()
        .expect("there is a compiler");
    let message = neutral(&String::from_utf8_lossy(&output.stderr), program);
    (output, message)
}

/// A message without its summary, and without line numbers and folders of files other than the program.
fn neutral(message: &str, program: &Path) -> String {
    let program = program.to_str().expect("text");
    let (mut neutral, mut gutter, mut is_elsewhere) = (Vec::new(), 0, false);
    for line in message.lines() {
        if line.starts_with("error: aborting due to") {
            break;
        }
        // long names of types are in files
        if line.contains("the full name for the type has been written to") {
            continue;
        }
        is_elsewhere &= !line.starts_with(|first: char| first.is_ascii_alphabetic());
        if let Some((arrow, place)) = line.split_once("--> ").or_else(|| line.split_once("::: ")) {
            gutter = arrow.len() + 1;
            is_elsewhere = !place.starts_with(program);
            let file = short(place.split(':').next().unwrap_or(place));
            let place = if is_elsewhere { file } else { place };
            neutral.push(format!("   --> {place}"));
            continue;
        }
        // as wide as the longest line number, of any file
        let number = line.get(..gutter).filter(|number| is_gutter(number));
        neutral.push(match number {
            None => line.to_owned(),
            Some(_) if line.ends_with(" others") => "            and $N others".to_owned(),
            Some(_) if is_elsewhere => format!("    {}", &line[gutter..]),
            Some(number) => format!("{:<4}{}", number.trim(), &line[gutter..]),
        });
    }
    format!("{}\n", neutral.join("\n").trim_end())
}

fn is_gutter(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c == ' ' || c.is_ascii_digit())
}

/// A file without the folders in which this machine has the sources of other crates.
fn short(file: &str) -> &str {
    if let Some((_, file)) = file.split_once("/lib/rustlib/src/rust/") {
        return file;
    }
    // behind the name of a registry, or of a compiler
    let roots = ["/registry/src/", "/rustc/"];
    let named = roots.iter().find_map(|root| Some(file.split_once(root)?.1));
    named.and_then(|named| Some(named.split_once('/')?.1)).unwrap_or(file)
}
