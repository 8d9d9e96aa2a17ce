//! Nodes in processes of their own, and load on them.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use asyncsteps_fabric::nats::NatsFabric;
use asyncsteps_fabric::{Call, Fabric};
use futures_util::StreamExt;
use futures_util::stream;
use serde_json::{Value, json};

use crate::nats::server::{NatsServer, send_signal, stop};

/// The example `node` as a process; it is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct NodeProcess(Child);

impl NodeProcess {
    /// A node that serves `demo.node:1.<minor>`; it does when this returns.
    pub(crate) fn serve(server: &NatsServer, name: &str, minor: u32) -> Self {
        let mut process = start(&["serve", &server.url(), name, &minor.to_string()]);
        let mut line = String::new();
        let output = process.stdout.take().expect("it is piped");
        BufReader::new(output).read_line(&mut line).expect("it says that it serves");
        assert_eq!(line.trim(), format!("{name} serves"));
        Self(process)
    }

    /// A process that makes a call and waits for its answer.
    pub(crate) fn call(server: &NatsServer, function: &str, params: &Value) -> Self {
        Self(start(&["call", &server.url(), function, &params.to_string()]))
    }

    /// Sends a signal to the process.
    pub(crate) fn signal(&self, signal: &str) {
        send_signal(&self.0, signal);
    }

    /// Stops the process; none of its threads runs any more when this returns.
    pub(crate) fn stop(&self) {
        stop(&self.0);
    }

    /// Waits until the process has ended by itself.
    pub(crate) async fn ended(mut self) {
        let waits = tokio::task::spawn_blocking(move || self.0.wait());
        let status = waits.await.expect("no panic").expect("it ends");
        assert!(status.success(), "{status}");
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        // it may be gone already
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(args: &[&str]) -> Child {
    let mut command = Command::new(example());
    command.args(args).stdout(Stdio::piped());
    command.spawn().expect("cargo builds examples with the tests")
}

/// The program of the example, which cargo builds beside the tests.
fn example() -> PathBuf {
    let test = std::env::current_exe().expect("a path");
    let profile = test.ancestors().nth(2).expect("target/debug/deps/test");
    profile.join("examples/node")
}

/// How often each result came: the name of a node, or the code of an error.
pub(crate) type Tally = BTreeMap<String, usize>;

/// Makes calls, so many at once; `progress` is told how many are over after each one.
pub(crate) async fn load(
    fabric: &NatsFabric,
    function: &str,
    params: &Value,
    (calls, at_once): (usize, usize),
    mut progress: impl FnMut(usize),
) -> Tally {
    let one = |_| async {
        let call = Call::new(function, params.clone()).expect("it is a call");
        match fabric.call(call).await {
            Ok(response) => response.into_value().as_str().unwrap_or("no name").to_owned(),
            Err(error) => error.to_string(),
        }
    };
    let mut results = stream::iter(0..calls).map(one).buffer_unordered(at_once);
    let (mut tally, mut over) = (Tally::new(), 0);
    while let Some(result) = results.next().await {
        *tally.entry(result).or_default() += 1;
        over += 1;
        progress(over);
    }
    tally
}

/// The same with calls that take two milliseconds.
pub(crate) async fn load_of_pauses(
    fabric: &NatsFabric,
    size: (usize, usize),
    progress: impl FnMut(usize),
) -> Tally {
    load(fabric, "demo.node:1.0:pause", &json!({ "millis": 2 }), size, progress).await
}
