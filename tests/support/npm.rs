//! Node.js programs under `tests/npm`, whose packages are installed on the first use.

use std::env;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// The folder of the programs.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../npm");

/// Runs a program there and gives the JSON that it printed.
#[must_use]
pub fn summary(script: &str, args: &[&str]) -> Value {
    serde_json::from_str(&printed(script, args)).expect("a summary")
}

/// Runs a program there and gives what it printed.
#[must_use]
pub fn printed(script: &str, args: &[&str]) -> String {
    install();
    let args: Vec<&str> = [script].into_iter().chain(args.iter().copied()).collect();
    String::from_utf8(run("node", &args)).expect("a text")
}

/// A program that serves; it ends when it is dropped.
#[derive(Debug)]
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    process: Child,
}

impl Server {
    /// Starts a program that prints its address as a line, and ends with its input.
    #[must_use]
    pub fn start(script: &str, args: &[&str]) -> Self {
        install();
        let mut process = Command::new("node")
            .arg(script)
            .args(args)
            .current_dir(FOLDER)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("node is needed: {error}"));
        let mut line = String::new();
        let output = process.stdout.take().expect("it has an output");
        BufReader::new(output).read_line(&mut line).expect("it prints");
        let address = line.trim().parse();
        Self { address: address.unwrap_or_else(|_| panic!("{script} prints {line:?}")), process }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        // it may have ended by itself, and a test that waited for it has failed then
        let _ = self.process.wait();
    }
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
    let lock = Path::new(FOLDER).join("package-lock.json");
    // one at a time: nextest runs each test in a process of its own
    let one = File::open(&lock).expect("the lock file is there");
    one.lock().expect("a lock");
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
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{program} {args:?}: {}\n{printed}", output.status);
    output.stdout
}
