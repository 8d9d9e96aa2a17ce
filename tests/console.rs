//! The promise: the console shows in a browser why a request was slow, failed or hangs, opens its
//! waterfall, and ends it.
//!
//! It needs Node.js, npm and a Chromium: Debian's `chromium-headless-shell`, or what `CHROMIUM` names.

use std::env;
use std::fs;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use asyncsteps::{Code, sleep};
use asyncsteps_actors::sync::Mutex;
use asyncsteps_console::Console;
use asyncsteps_executor::observe::{Keep, Locks};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Executor, Gives, Service, Steps};
use asyncsteps_support::npm;
use asyncsteps_support::server::TestServer;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// A till that serves the payments of a customer one after the other.
struct Till {
    customers: Mutex,
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

impl Till {
    fn pay(asi: &mut Steps<Self, Payment>) -> Gives<bool> {
        let cx = asi.cx();
        asi.run("check", async |_, ()| {
            sleep(Duration::from_millis(5)).await;
            Ok(())
        })
        .then("bank", async |cx, ()| {
            sleep(Duration::from_millis(cx.params.ms.into())).await;
            if cx.params.fails { Err(TillError::Declined.into()) } else { Ok(()) }
        })
        .locked(&cx.customers.key(&cx.params.customer))
        .then("receipt", async |_, ()| {
            sleep(Duration::from_millis(5)).await;
            Ok(true)
        })
        .into()
    }
}

fn executor(console: &OnceLock<Console>) -> Executor {
    let customers = Mutex::named("customers", asyncsteps::sync::mutex::Options::default());
    let locks = Locks::new().mutex(&customers);
    let mut interface = Interface::new("test.till:1.0".parse().expect("a name"));
    interface.allow_anonymous();
    let executor = Executor::builder()
        .record(Keep { slow: Some(Duration::from_millis(100)), ..Keep::default() })
        .request_timeout(Duration::from_secs(3600))
        .service(interface, Till { customers }, |functions| {
            functions.on("pay", Till::pay);
        })
        .build()
        .expect("a right configuration");
    console.set(Console::new(&executor, locks)).expect("one console");
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
        move |server| server.fallback(console.get().expect("a console").service()),
    );
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/target/screenshots");
    fs::create_dir_all(folder).expect("a folder");
    let seen = npm::summary("console.js", &[&host.address.to_string(), &browser, folder]);
    let expected = json!({
        "title": "Overview · AsyncSteps console",
        "cause": "Most of the time went to bank: T of T (console.rs). \
                  Declined came from bank (console.rs).",
        "waterfall": ["pay", "check", "bank"],
        "waits": [
            "waits for a future",
            "waits for mutex `customers` key \"<b>cat</b>\", place 1 of 1",
        ],
        "lock": "<b>cat</b> 1 1",
        "running": "waits for a future",
        "cancelled": { "e": "InternalError", "edesc": "Request was cancelled" },
        "second": { "r": true },
        "outcome": "InternalError",
        "errors": [],
    });
    assert_eq!(seen, expected);
}
