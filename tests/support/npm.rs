//! Node.js programs under `tests/npm`, whose packages are installed on the first use.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::{env, fs};

use serde_json::Value;

/// The folder of the programs.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../npm");

/// Runs a program there and gives the JSON that it printed.
#[must_use]
pub fn summary(script: &str, args: &[&str]) -> Value {
    install();
    let args: Vec<&str> = [script].into_iter().chain(args.iter().copied()).collect();
    serde_json::from_slice(&run("node", &args)).expect("a summary")
}

/// Where a program is, if it is installed.
#[must_use]
pub fn find(program: &str) -> Option<String> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut found = env::split_paths(&path).map(|folder| folder.join(program));
    let found = found.find(|file| file.is_file())?;
    found.into_os_string().into_string().ok()
}

/// Installs the packages that the lock file names, unless they are there.
fn install() {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().expect("no panic");
    let lock = Path::new(FOLDER).join("package-lock.json");
    let installed = Path::new(FOLDER).join("node_modules/.package-lock.json");
    let time = |file: &Path| fs::metadata(file).and_then(|data| data.modified()).ok();
    if time(&installed) < time(&lock) {
        run("npm", &["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
    }
}

fn run(program: &str, args: &[&str]) -> Vec<u8> {
    let output = Command::new(program)
        .args(args)
        .current_dir(FOLDER)
        .stderr(Stdio::inherit())
        .output()
        .unwrap_or_else(|error| panic!("{program} is needed: {error}"));
    assert!(output.status.success(), "{program} {args:?}: {}", output.status);
    output.stdout
}
