//! Programs with mistakes, and what the compiler says to them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The compiler whose messages are recorded; others word them differently.
const RECORDED_WITH: &str = "rustc 1.95.0 ";

/// The directory of programs that only have to be refused.
const REFUSED: &str = "ASYNCSTEPS_REFUSED";

/// Checks that each program of `programs` is refused, with the message beside it; with another
/// compiler than that of the record, that it is refused. `test` is the test that calls this.
///
/// `TRYBUILD=overwrite` records the messages.
pub(crate) fn check(programs: &str, test: &str) {
    let cases = trybuild::TestCases::new();
    if let Some(copies) = env::var_os(REFUSED) {
        cases.compile_fail(Path::new(&copies).join("*.rs"));
    } else if version().starts_with(RECORDED_WITH) {
        cases.compile_fail(format!("{programs}/*.rs"));
    } else {
        check_refused(&copy(programs), test);
    }
}

fn version() -> String {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output().expect("there is a compiler");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Copies the programs without their messages.
fn copy(programs: &str) -> PathBuf {
    let copies = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mistakes");
    fs::create_dir_all(&copies).expect("a directory");
    for program in fs::read_dir(programs).expect("the programs") {
        let program = program.expect("a program").path();
        if program.extension().is_some_and(|extension| extension == "rs") {
            let name = program.file_name().expect("a name");
            fs::copy(&program, copies.join(name)).expect("a copy");
        }
    }
    copies
}

/// Has this test record the messages of the copies, which fails for a program that compiles.
fn check_refused(copies: &Path, test: &str) {
    let this = env::current_exe().expect("this test");
    let status = Command::new(this)
        .args(["--exact", test])
        .envs([("TRYBUILD", "overwrite".as_ref()), (REFUSED, copies.as_os_str())])
        .status();
    assert!(status.expect("it runs").success(), "a program compiles that must not");
}
