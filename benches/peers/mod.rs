//! Peers that cannot be linked into a bench: programs of workspaces of their own, which run beside it.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A program that does one round of its work for each line that it reads; it ends with its input.
pub(crate) struct Peer {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    /// Builds and starts the peer of this name; says so and gives nothing if that does not work here.
    #[expect(clippy::print_stdout, reason = "what is left out is told")]
    pub(crate) fn start(name: &str, args: &[&str]) -> Option<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers").join(name);
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../peers");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--release", "--locked", "--quiet"]).current_dir(&folder);
        let built = cargo.env("CARGO_TARGET_DIR", &target).status();
        if !built.is_ok_and(|status| status.success()) {
            println!("{name} cannot be built here: its rows are left out");
            return None;
        }
        let mut program = Command::new(target.join("release").join(format!("{name}-peer")));
        program.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = program.spawn().expect("it was built");
        let answers = BufReader::new(child.stdout.take().expect("a pipe"));
        Some(Self { orders: child.stdin.take(), answers, child })
    }

    /// One round.
    pub(crate) fn round(&mut self) {
        let orders = self.orders.as_mut().expect("it runs");
        orders.write_all(b"go\n").expect("the peer reads");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("the peer answers");
        assert_eq!(line, "done\n");
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.orders.take());
        // it has nothing to lose
        let _ = self.child.wait();
    }
}
