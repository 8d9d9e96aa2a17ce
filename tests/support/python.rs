//! Programs of Python packages, which `tests/run` installs below `tests/python` where it can, and says so where it cannot.

use std::path::Path;
use std::process::Command;

/// The folder of the tests' own files in Python.
pub const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../python");

/// A program of these packages, or Python itself with them; `None` if they are not installed.
#[must_use]
pub fn command(program: &str) -> Option<Command> {
    // others may be there from an installation that broke off
    let all = ["openapi-python-client", "schemathesis"];
    let bin = Path::new(FOLDER).join("venv/bin");
    all.iter().all(|it| bin.join(it).is_file()).then(|| Command::new(bin.join(program)))
}
