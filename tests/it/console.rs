//! The promise: the console shows in a browser why a request was slow, failed or hangs, opens its
//! waterfall, and ends it.
//!
//! It needs Node.js, npm and a Chromium: Debian's `chromium-headless-shell`, or what `CHROMIUM` names.

use std::env;
use std::fs;
use std::future::pending;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use asyncsteps_actors::sync::Mutex;
use asyncsteps_console::Console;
use asyncsteps_core::sync::mutex::Options;
use asyncsteps_core::{Code, sleep};
use asyncsteps_durable::Durable;
use asyncsteps_durable::journal::memory::Memory;
use asyncsteps_executor::observe::Retention;
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Executor, Returns, Service, Steps};
use asyncsteps_fabric::{Endpoint, Fabric, LocalFabric};
use asyncsteps_observe::Locks;
use asyncsteps_support::npm;
use asyncsteps_support::server::TestServer;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Barrier;

/// What opens the console.
const TOKEN: &str = "a-long-secret";

/// Longer than any test.
const HOUR: Duration = Duration::from_secs(3600);

/// A till with faults: a bank that is slow, transfers that lock each other out, a courier that never
/// comes.
struct Till {
    customers: Mutex,
    accounts: Mutex,
    /// Transfers go on when two of them have their first account.
    both: Barrier,
}

#[derive(Debug, Code, thiserror::Error)]
enum TillError {
    #[error("no money")]
    #[code(public)]
    Declined,
}

impl Service for Till {
    type Errors = TillError;
}

#[derive(Deserialize, JsonSchema)]
struct Payment {
    customer: String,
    ms: u32,
    fails: bool,
}

#[derive(Deserialize, JsonSchema)]
struct Transfer {
    from: String,
    to: String,
}

impl Till {
    fn pay(steps: &Steps<Self, Payment>) -> Returns<bool> {
        steps
            .run("check", async |_, ()| {
                sleep(Duration::from_millis(5)).await;
                Ok(())
            })
            .then("bank", async |cx, ()| {
                sleep(Duration::from_millis(cx.params.ms.into())).await;
                if cx.params.fails { Err(TillError::Declined.into()) } else { Ok(()) }
            })
            .locked(|cx| cx.customers.key(&cx.params.customer))
            .then("receipt", async |_, ()| {
                sleep(Duration::from_millis(5)).await;
                Ok(true)
            })
            .returns()
    }

    /// Takes the accounts in the order in which they are named. The time limit is what ends a deadlock,
    /// so that it is reported, and nothing fails at once.
    fn transfer(steps: &Steps<Self, Transfer>) -> Returns<bool> {
        steps
            .nested("transfer", |steps| {
                steps.timeout(HOUR);
                steps
                    .run("meet", async |cx, ()| {
                        cx.both.wait().await;
                        Ok(())
                    })
                    .then("to", async |_, ()| Ok(true))
                    .locked(|cx| cx.accounts.key(&cx.params.to))
                    .returns()
            })
            .locked(|cx| cx.accounts.key(&cx.params.from))
            .returns()
    }

    fn credit(steps: &Steps<Self, ()>) -> Returns<bool> {
        let asked = steps.run("ask the bank", async |_, ()| Ok(())).once();
        asked.then_wait_signal("answer").returns()
    }

    fn deliver(steps: &Steps<Self, ()>) -> Returns<bool> {
        steps.run("courier", async |_, ()| Ok(pending().await)).returns()
    }
}

fn executor(console: &OnceLock<Console>) -> Executor {
    let customers = Mutex::named("customers", Options::default());
    let accounts = Mutex::named("accounts", Options::default());
    let locks = Locks::new().mutex(&customers).mutex(&accounts);
    let durable = Durable::new(Memory::default());
    let mut interface = Interface::new("test.till:1.0".parse().expect("a name"));
    interface.allow_anonymous();
    let executor = Executor::builder()
        .record(Retention { slow: Some(Duration::from_millis(100)), ..Retention::default() })
        .request_timeout(HOUR)
        .service(interface, Till { customers, accounts, both: Barrier::new(2) }, |functions| {
            functions
                .on("pay", Till::pay)
                .on("transfer", Till::transfer)
                .on("deliver", Till::deliver);
            durable.on(functions, "credit", Till::credit);
        })
        .build()
        .expect("a right configuration");
    let fabric = Arc::new(LocalFabric::new());
    let made = Console::new(&executor, locks).nodes(Arc::<LocalFabric>::clone(&fabric));
    console.set(made.durable(durable.clone()).token(TOKEN)).expect("one console");
    let served = executor.clone();
    actix_rt::spawn(async move {
        let _node = durable.start(&served).await.expect("the journal gives a lease");
        let _guard = fabric.serve(Endpoint::all(&served), served).await.expect("it serves");
        pending::<()>().await;
    });
    executor
}

#[test]
fn a_person_finds_out_why_a_request_waits_and_ends_it() {
    let browser = env::var("CHROMIUM").unwrap_or_else(|_| "chromium-headless-shell".to_owned());
    // `tests/run` installs it where it can, and says so where it cannot
    let Some(browser) = npm::find(&browser) else { return };
    let console = Arc::new(OnceLock::new());
    let made = Arc::clone(&console);
    let host = TestServer::start_server(
        None,
        move || executor(&made),
        |service| service,
        move |server| server.page("/console", console.get().expect("a console").service()),
    );
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/target/screenshots");
    fs::create_dir_all(folder).expect("a folder");
    let address = host.address.to_string();
    let seen = npm::summary("console.js", &[&address, &browser, folder, TOKEN]);
    let expected = json!({
        "token": "That token is not the right one.",
        "title": "Overview · AsyncSteps console",
        "ready": "Ready",
        // the slow bank: a request that is over, and one that is in flight
        "cause": "Most of the time went to bank: T of T (console.rs). \
                  Declined came from bank (console.rs).",
        "waterfall": ["pay", "check", "bank"],
        "blamed": ["capture", 1, 822],
        "address": ["#/requests/N", "test.till:1.0:pay"],
        "places": ["pay › bank", "pay › customers › mutex customers"],
        "slow": "bank step runs",
        "behind": "bank › customers mutex waits for mutex `customers` key \"<b>cat</b>\", place 1 of 1 held by pay",
        "lock": "<b>cat</b> pay pay",
        "heat": 1,
        "plan": ["check console.rs p99 T of 1", "bank console.rs locked 2 here 1 future 1 mutex p99 T of 1 Declined 1", "receipt console.rs"],
        "drawn": [2, "tell", "<i>trip<", "The first 5 of 6 steps."],
        "refused": ["unknown", "unknown", "InvalidRequest", "UnknownInterface"],
        // the deadlock: reported, its cycle in the graph, and ended by a cancel
        "deadlock": "1 deadlock so far.",
        "cycle": ["accounts ann", "accounts bob", "transfer", "transfer"],
        "untangled": [{ "e": "InternalError", "edesc": "Request was cancelled" }, { "r": true }],
        // the stuck flow: its cause, and its end
        "stuck": "courier step runs",
        "cancelled": { "e": "InternalError", "edesc": "Request was cancelled" },
        "outcome": "InternalError",
        "filtered": ["deliver"],
        // the durable request: one row with its caller, what is recorded, and its end
        "one": [1, "durable its request waits, or another process runs it"],
        "named": "#/durable/UID",
        "durable": ["begun", "done", "submitted"],
        "key": "cart 7",
        "withdrawn": "Cancelled by the console",
        "past": "The curves and maps begin at T, when the service began, and grow to five minutes. Prometheus has what was before.",
        "nodes": ["local-0 serving 0 test.till:1.0"],
        "errors": [],
    });
    assert_eq!(seen, expected);
}
