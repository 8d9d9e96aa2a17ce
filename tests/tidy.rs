//! House rules that no lint knows: layers, file sizes, what may be named where.

use std::fs;
use std::path::{Path, PathBuf};

/// Longest source file, in lines before its tests: beyond it there is a second idea in the file.
const MAX_LINES: usize = 600;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All Rust files below a folder of the workspace, with their texts.
fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the folder is there") {
            let path = entry.expect("the folder can be read").path();
            if path.ends_with("target") {
                // what fuzzing builds
            } else if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = fs::read_to_string(&path).expect("sources are text");
                found.push((path, text));
            }
        }
    }
    assert!(!found.is_empty(), "no sources in {folder}");
    found
}

/// Fails with the lines of `folder` that contain any of `words` outside of comments.
fn forbid(folder: &str, words: &[&str], why: &str) {
    let mut broken = Vec::new();
    for (path, text) in sources(folder) {
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            if let Some(word) = words.iter().find(|word| code.contains(**word)) {
                broken.push(format!("{}:{}: {word}", path.display(), number + 1));
            }
        }
    }
    assert!(broken.is_empty(), "{why}:\n{}", broken.join("\n"));
}

#[test]
fn the_engine_knows_no_runtime_clock_thread_or_json() {
    let words =
        ["tokio", "actix", "serde", "Instant::now", "SystemTime", "std::net", "thread::spawn"];
    forbid("engine/src", &words, "the engine is free of IO");
}

#[test]
fn the_binary_interface_knows_the_engine_only() {
    let words = ["tokio", "actix", "serde", "std::net"];
    forbid("engine/ffi/src", &words, "its event loops are its own, others come to it as hosts");
}

#[test]
fn definitions_and_messages_know_no_actors() {
    for place in ["actors/src/iface", "actors/src/message", "actors/src/security"] {
        forbid(place, &["actix", "tokio", "asyncsteps::"], "definitions and messages are pure");
    }
}

#[test]
fn only_transports_see_http() {
    for place in ["actors/src/executor", "actors/src/flow", "actors/src/sync"] {
        forbid(place, &["actix_web", "http::"], "only transports see bytes");
    }
}

#[test]
fn libraries_do_not_know_who_uses_them() {
    for place in ["engine/src", "engine/ffi/src"] {
        forbid(place, &["asyncsteps_actors", "executor_demo"], "arrows point one way");
    }
    forbid("engine/src", &["asyncsteps_ffi"], "arrows point one way");
    forbid("actors/src", &["executor_demo"], "arrows point one way");
}

#[test]
fn unsafe_code_lives_in_the_binary_interface_only() {
    for library in ["engine", "actors", "executor-demo"] {
        let file = root().join(library).join("src/lib.rs");
        let text = fs::read_to_string(&file).expect("each crate has a library");
        assert!(text.contains("#![forbid(unsafe_code)]"), "{}", file.display());
    }
    // elsewhere the lints deny it, unless a file expects it
    let expects = concat!("expect(unsafe", "_code");
    for place in ["actors", "executor-demo", "tests", "engine/src", "engine/tests"] {
        forbid(place, &[expects], "foreign code is called in engine/ffi and its bench");
    }
}

#[test]
fn files_hold_one_idea_each() {
    let mut large = Vec::new();
    let folders =
        ["engine/src", "engine/ffi", "actors/src", "executor-demo/src", "tests", "benches"];
    for folder in folders {
        for (path, text) in sources(folder) {
            let code = text.lines().take_while(|line| !line.starts_with("#[cfg(test)]"));
            let lines = code.count();
            if lines > MAX_LINES {
                large.push(format!("{}: {lines} lines", path.display()));
            }
        }
    }
    assert!(large.is_empty(), "files beyond {MAX_LINES} lines:\n{}", large.join("\n"));
}

#[test]
fn no_lint_is_switched_off_without_a_reason_and_no_test_is_skipped() {
    // split, so that this file does not name them
    let marks = [concat!("#[all", "ow("), concat!("#[ign", "ore"), concat!("thread::sl", "eep(")];
    for folder in ["engine", "actors", "executor-demo", "tests", "benches"] {
        forbid(folder, &marks, "use #[expect(.., reason)], virtual time, and run every test");
    }
}
