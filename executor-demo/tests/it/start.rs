//! The promise: the program says that it listens when it serves, and else why it cannot.

use std::ffi::OsStr;
use std::process::{Command, Output};

use asyncsteps_support::shop::Data;

const PROGRAM: &str = env!("CARGO_BIN_EXE_executor-demo");

/// What the program says that is started in vain.
fn fail(data: impl AsRef<OsStr>, arguments: &[&str], filter: &str) -> Output {
    let output = Command::new(PROGRAM)
        .args(["--listen", "127.0.0.1:0", "--data"])
        .arg(data)
        .args(arguments)
        .env("RUST_LOG", filter)
        .output()
        .expect("the program starts");
    assert!(!output.status.success());
    assert_eq!(text(&output.stdout), "");
    output
}

fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).expect("text")
}

#[test]
fn a_file_that_is_no_database_is_told_before_anything_listens() {
    let data = Data::new();
    std::fs::write(data.file(), "this is text, and long enough for the head of a database")
        .unwrap();
    let output = fail(data.file(), &[], "error");
    assert_eq!(output.status.code(), Some(1));
    let told = text(&output.stderr);
    assert!(told.contains("cannot open the database: "), "{told}");
    assert!(!told.contains("panic"), "{told}");
}

#[test]
fn more_workers_than_are_of_use_are_refused() {
    for workers in ["5000", "129", "0", "many"] {
        let output = fail(Data::new().file(), &["--workers", workers], "error");
        assert_eq!(output.status.code(), Some(2), "{workers}");
        let told = text(&output.stderr);
        assert!(told.contains("--workers") && !told.contains("panic"), "{told}");
    }
}

#[test]
fn a_wrong_filter_of_the_log_is_told() {
    let output = fail(Data::new().file(), &[], "asyncsteps=loud");
    assert_eq!(output.status.code(), Some(1));
    let told = text(&output.stderr);
    assert!(
        told.contains("the filter of the log, from RUST_LOG unless it was set, is wrong"),
        "{told}"
    );
}
