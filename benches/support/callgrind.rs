//! Instructions of a process, counted by valgrind's callgrind.

use std::env;
use std::process::{Command, Stdio};

/// This program with its instructions counted, which it writes to its errors when it ends.
pub(crate) fn counted() -> Command {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    valgrind.arg(env::current_exe().expect("a program has a path")).stderr(Stdio::piped());
    valgrind
}

/// How many there were, from what it wrote.
pub(crate) fn collected(errors: &[u8]) -> f64 {
    let text = String::from_utf8_lossy(errors);
    let line = text.lines().find_map(|line| line.split_once("Collected : "));
    line.and_then(|(_, count)| count.trim().parse().ok()).expect("callgrind counts")
}
