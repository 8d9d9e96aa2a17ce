//! The promise: the program writes the modules of interfaces, or says why it cannot and writes nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use asyncsteps_futoin::typescript;

const DEFINITIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/ifaces");

/// The exit code and the text on the standard error.
fn run(args: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_ftn3-typescript")).args(args).output();
    let output = output.expect("the program runs");
    assert!(output.stdout.is_empty());
    (output.status.code(), String::from_utf8(output.stderr).expect("a text"))
}

/// A folder that is not there.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // it is there after a run of the tests
    let _ = fs::remove_dir_all(&folder);
    folder
}

#[test]
fn modules_are_written_to_a_folder() {
    let out = folder("typescript").join("api");
    let path = out.to_str().expect("a text");
    let run = run(&[DEFINITIONS, path, "futoin.ping:1.0", "futoin.anonping:1.0"]);
    assert_eq!(run, (Some(0), String::new()));
    let read = |name: &str| fs::read_to_string(out.join(name)).expect("it is written");
    assert_eq!(read("futoin.ts"), typescript::CLIENT);
    for name in ["futoin.ping", "futoin.anonping"] {
        assert!(read(&format!("{name}-1.ts")).contains(&format!("'{name}:1.0:ping'")));
    }
}

#[test]
fn what_cannot_be_written_is_said() {
    let out = folder("typescript-errors");
    let path = out.to_str().expect("a text");
    for args in [&[][..], &[DEFINITIONS], &[DEFINITIONS, path]] {
        let (code, text) = run(args);
        assert_eq!(code, Some(2));
        assert!(text.starts_with("usage: ftn3-typescript"), "{text}");
    }
    for (interface, said) in [("none.such:1.0", "none.such:1.0"), ("ping", "ping: ")] {
        let (code, text) = run(&[DEFINITIONS, path, "futoin.ping:1.0", interface]);
        assert_eq!(code, Some(1));
        assert!(text.starts_with("ftn3-typescript: ") && text.contains(said), "{text}");
    }
    assert!(!out.exists());
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let (code, text) = run(&[DEFINITIONS, file.to_str().expect("a text"), "futoin.ping:1.0"]);
    assert_eq!(code, Some(1));
    assert!(text.contains("Cargo.toml"), "{text}");
}
