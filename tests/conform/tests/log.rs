//! The promise: what clients send cannot forge lines of the log, and panics are lines of it.

use std::io::{BufRead, BufReader, PipeReader, pipe};

use asyncsteps_support::client::{self, Connection, message, post};
use asyncsteps_support::shop::Program;
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_asyncsteps-conform");

/// The lines of a program from its start to its end.
fn lines_of(log: PipeReader) -> Vec<String> {
    BufReader::new(log).lines().map(|line| line.expect("text")).collect()
}

#[test]
fn what_a_client_sends_stays_on_its_line() {
    let (reader, log) = pipe().expect("a pipe");
    let program = Program::serve(PROGRAM, &[], log);
    let fail = |rid: &str, code: &str| {
        let call = json!({
            "f": "conform.main:1.2:fail", "p": { "code": code }, "rid": rid,
        });
        Connection::open(program.address).post(call.to_string().as_bytes()).json()
    };
    let forged = "\n2026-01-01T00:00:00Z ERROR forged: \u{1b}[31m \u{202e}\" outcome=\"x";
    assert_eq!(fail(forged, forged)["rid"], forged);
    let (long_rid, long_code) = ("x".repeat(60_000), "y".repeat(60_000));
    assert!(fail(&long_rid, "Undeclared")["rid"] == long_rid.as_str());
    assert_eq!(fail("short", &long_code)["e"], "InternalError");
    assert_eq!(program.terminate().code(), Some(0));
    let lines = lines_of(reader);
    assert!(lines.iter().any(|line| line.contains(r#"rid="\n2026"#)), "{lines:#?}");
    for line in &lines {
        assert!(line.starts_with("20") && !line.starts_with("2026-01-01"), "{line}");
        assert!(!line.contains(['\u{1b}', '\u{202e}']), "{line}");
        assert!(line.len() < 10_000, "{} bytes", line.len());
    }
}

#[test]
fn panics_are_lines_of_the_log() {
    let (reader, log) = pipe().expect("a pipe");
    let program = Program::serve(PROGRAM, &["--json"], log);
    let crash = post(&message("conform.main:1.2:crash", &json!({})));
    let answer = Connection::open(program.address).send(&crash).receive().json();
    assert_eq!(answer, json!({ "e": "InternalError", "edesc": "Not expected error" }));
    client::ping(program.address);
    assert_eq!(program.terminate().code(), Some(0));
    let lines = lines_of(reader);
    let lines = lines.iter().map(|line| serde_json::from_str(line).expect("JSON"));
    let panics: Vec<Value> = lines.filter(|line: &Value| line["target"] == "panic").collect();
    assert_eq!(panics.len(), 1, "{panics:#?}");
    let place = panics[0]["fields"]["location"].as_str().expect("a place in the source");
    assert!(place.contains("conform"), "{place}");
}
