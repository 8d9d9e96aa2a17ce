//! Requests that wait until a test lets them go on, and report when they are cancelled.

use std::sync::Arc;

use asyncsteps_core::{Completion, Template};
use asyncsteps_executor::iface::{Definition, Loader, Source};
use asyncsteps_executor::{Builder, RequestSteps};
use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use crate::PATIENCE;

/// What the requests of `test.jobs:1.0` do.
///
/// `wait` and its `heavy` twin `waitHeavy` start a [`Job`] and answer with its number when it is
/// finished.
#[derive(Debug)]
pub struct Jobs {
    started: UnboundedReceiver<Job>,
    cancelled: UnboundedReceiver<i64>,
}

/// A request in flight.
#[derive(Debug)]
pub struct Job {
    /// Its parameter `n`.
    pub n: i64,
    go: Completion,
}

const DEFINITION: &str = r#"{
    "iface": "test.jobs",
    "version": "1.0",
    "ftn3rev": "1.9",
    "funcs": {
        "wait": {
            "params": { "n": { "type": "integer", "default": 0 } },
            "result": { "n": "integer" }
        },
        "waitHeavy": {
            "params": { "n": { "type": "integer", "default": 0 } },
            "result": { "n": "integer" },
            "heavy": true
        }
    },
    "requires": [ "AllowAnonymous" ]
}"#;

/// The definition of `test.jobs:1.0`.
#[must_use]
pub fn definition() -> Arc<Definition> {
    let source = Source::texts([("test.jobs-1.0-iface.json", DEFINITION)]);
    let id = "test.jobs:1.0".parse().expect("a name");
    Loader::new([source]).load(&id).expect("a definition")
}

impl Jobs {
    /// Adds `test.jobs:1.0` to an executor.
    pub fn add(builder: Builder) -> (Self, Builder) {
        let (starts, started) = unbounded_channel();
        let (cancels, cancelled) = unbounded_channel();
        let wait = wait(starts, cancels);
        let builder = builder.interface(definition(), |functions| {
            functions.others_not_implemented();
            functions.add("wait", &wait).add("waitHeavy", &wait);
        });
        (Self { started, cancelled }, builder)
    }

    /// The next request that started.
    pub async fn started(&mut self) -> Job {
        self.started.recv().await.expect("an executor")
    }

    /// The number of the next request whose cancel handler ran.
    pub async fn cancelled(&mut self) -> i64 {
        self.cancelled.recv().await.expect("an executor")
    }

    /// The same for tests that do not run in a runtime.
    pub fn wait_for_start(&mut self) -> Job {
        block_on(self.started())
    }

    /// The same for tests that do not run in a runtime.
    pub fn wait_for_cancel(&mut self) -> i64 {
        block_on(self.cancelled())
    }

    /// Whether all that started or was cancelled was asked for.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.started.is_empty() && self.cancelled.is_empty()
    }
}

impl Job {
    /// Lets the request go on to its answer.
    pub fn finish(self) {
        self.go.success(self.n).expect("it waits");
    }

    /// Whether the request still waits.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.go.is_valid()
    }
}

fn wait(starts: UnboundedSender<Job>, cancels: UnboundedSender<i64>) -> Template {
    Template::build(move |asi| {
        asi.add(move |asi, ()| {
            let n = asi.param("n")?;
            let cancels = cancels.clone();
            asi.set_cancel(move |_| {
                // a test may not be interested
                let _ = cancels.send(n);
            });
            let go = asi.wait_external();
            let _ = starts.send(Job { n, go });
            Ok(())
        });
        asi.add(|asi, n: i64| asi.reply(json!({ "n": n })));
    })
}

fn block_on<T>(event: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let waited = async { timeout(PATIENCE, event).await };
    runtime.expect("a runtime").block_on(waited).expect("the event comes")
}
