//! The promise: the official client of the Model Context Protocol lists and calls functions as tools, with their users,
//! errors, jobs and undo; and the protocol's own suite finds no mistake in what is offered.
//!
//! It needs Node.js and npm.

#![expect(clippy::unused_async, reason = "handlers are async functions")]

use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use asyncsteps_core::{BodyResult, Code};
use asyncsteps_durable::Durable;
use asyncsteps_durable::jobs::{Jobs, JobsFunction};
use asyncsteps_durable::journal::memory::Memory;
use asyncsteps_executor::security::{PasswordHash, Secret, SecurityLevel, StaticUsers};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Cx, Executor, Returns, Service, Steps};
use asyncsteps_support::front::Front;
use asyncsteps_support::npm;
use asyncsteps_support::server::TestServer;
use asyncsteps_support::shop::{self, Data, Shop};
use asyncsteps_transport::http;
use executor_demo::Config;
use executor_demo::journal::JournalPlace;
use serde_json::json;
use tokio::sync::Notify;

/// The code with which the client ends a call that it cancels.
const ABORTED: i32 = -32_001;

#[test]
fn the_official_client_orders_is_refused_and_cancels() {
    let data = Data::new();
    let journal = Some(JournalPlace::File(data.file().with_extension("journal")));
    let config = Config { journal, ..shop::config(&data) };
    // so long that an order is seen on its way
    let shop = Shop::serve(Config { bank_latency: 1_000, ..config.clone() });
    let seen = npm::summary("mcp.js", &["cancel", &shop.address.to_string()]);
    let _ = shop.stop();
    let undone = json!({
        "said": ABORTED, "wasSeen": true, "error": "Cancelled", "orders": { "orders": [] },
    });
    assert_eq!(seen, undone);
    assert_eq!((data.orders(), data.bank().held), (0, 0));

    let shop = Shop::serve(config);
    let seen = npm::summary("mcp.js", &["shop", &shop.address.to_string()]);
    let _ = shop.stop();
    let read = json!({ "readOnlyHint": true });
    let expected = json!({
        "server": { "name": "executor-demo", "version": env!("CARGO_PKG_VERSION") },
        "tools": [
            ["get", true, ["order"], false, ["order", "customer", "items", "total"], read],
            ["list", true, ["customer"], false, ["orders"], read],
            ["order", true, ["customer", "items"], false, ["order", "total"], null],
            ["stock", true, ["sku"], false, ["stock"], read],
        ],
        "tooMuch": "OutOfStock: tea",
        "wrong": "InvalidRequest: Type mismatch for parameter: demo.shop:1.0:stock(sku) = \"not a SKU\"",
        "missing": "InvalidRequest: Missing parameter: demo.shop:1.0:stock(sku)",
        "noTool": -32602,
        "ordered": { "order": 1, "total": 1_000 },
        "stock": { "stock": 1 },
    });
    assert_eq!(seen, expected);
}

/// Functions of the suite, and of the client.
#[derive(Default)]
struct Tools {
    held: AtomicUsize,
    release: Notify,
}

#[derive(Debug, Code, thiserror::Error)]
#[error("it is intended")]
#[code("Intended", public)]
struct Intended;

impl Service for Tools {
    type Errors = Intended;
}

impl Tools {
    async fn text(_: &Cx<Self, ()>) -> BodyResult<String> {
        Ok("some text".to_owned())
    }

    async fn fail(_: &Cx<Self, ()>) -> BodyResult<String> {
        Err(Intended.into())
    }

    async fn whoami(cx: &Cx<Self, ()>) -> BodyResult<String> {
        Ok(cx.request().user().map_or_else(String::new, |user| user.local_id().to_owned()))
    }

    async fn held(cx: &Cx<Self, ()>) -> BodyResult<String> {
        Ok(cx.held.load(Ordering::SeqCst).to_string())
    }

    async fn forget(_: &Cx<Self, ()>) -> BodyResult<()> {
        Ok(())
    }

    async fn release(cx: &Cx<Self, ()>) -> BodyResult<()> {
        cx.release.notify_one();
        Ok(())
    }

    fn hold(steps: &Steps<Self, ()>) -> Returns<String> {
        steps
            .run("take", async |cx, ()| Ok(_ = cx.held.fetch_add(1, Ordering::SeqCst)))
            .undo(async |cx, _| Ok(_ = cx.held.fetch_sub(1, Ordering::SeqCst)))
            .then("wait", async |_, ()| Ok(pending().await))
            .returns()
    }

    fn long(steps: &Steps<Self, ()>) -> Returns<String> {
        let wait = steps.run("wait", async |cx, ()| {
            cx.release.notified().await;
            Ok("released".to_owned())
        });
        wait.repeatable().returns()
    }
}

fn executor() -> Executor {
    let durable = Durable::new(Memory::default());
    let jobs = Jobs::new(durable.clone()).callers(SecurityLevel::Anonymous);
    let jobs = jobs.allow([JobsFunction::Submit, JobsFunction::Cancel]);
    let mut interface = Interface::new("test.tools:1.0".parse().expect("a name"));
    interface.allow_anonymous();
    interface.function::<(), String>("whoami").seclvl(SecurityLevel::SafeOps);
    let hash = PasswordHash::new(&Secret::new("secret")).expect("a hash");
    let executor = jobs
        .host(Executor::builder())
        .security(StaticUsers::new().with_password("ann", hash))
        .request_timeout(Duration::from_secs(3_600))
        .service(interface, Tools::default(), |functions| {
            functions
                .on("testSimpleText", Tools::text)
                .on("testErrorHandling", Tools::fail)
                .on("whoami", Tools::whoami)
                .on("held", Tools::held)
                .on("hold", Tools::hold)
                .on("forget", Tools::forget)
                .on("release", Tools::release);
            durable.on(functions, "testToolWithProgress", Tools::long);
            for tool in [
                "testSimpleText",
                "testErrorHandling",
                "testToolWithProgress",
                "whoami",
                "held",
                "hold",
                "forget",
            ] {
                functions.tool(tool, "It is tested");
            }
        })
        .build()
        .expect("a right configuration");
    let served = executor.clone();
    actix_rt::spawn(async move {
        let _node = durable.start(&served).await.expect("the journal is in memory");
        pending::<()>().await;
    });
    executor
}

fn with_tools(service: http::Service) -> http::Service {
    let hosts = ["127.0.0.1", "localhost"];
    service.mcp("/mcp", "tools", "1").allowed_hosts(hosts)
}

fn calls_have_users_and_are_undone(front: Front) {
    let host = front.start_as(2, executor, with_tools);
    let address = host.address.to_string();
    // what the clients call an answer with 401, and the end of a call that they cancel: by a notification, and by the
    // end of its connection
    let old = (npm::summary("mcp.js", &["tools", &address]), json!(401), json!(ABORTED));
    let newest = npm::summary("mcp.js", &["tools", &address, "newest"]);
    let newest = (newest, json!("CLIENT_HTTP_NOT_IMPLEMENTED"), json!("REQUEST_TIMEOUT"));
    for (seen, denied, aborted) in [old, newest] {
        let expected = json!({
            "ann": { "text": "ann" },
            "nobody": denied,
            "wrong": denied,
            "undone": aborted,
            "twice": [aborted, { "text": "ann" }],
            "none": { "text": "" },
        });
        assert_eq!(seen, expected);
    }
}

asyncsteps_support::on_both_fronts! { calls_have_users_and_are_undone }

#[test]
fn the_suite_of_the_protocol_finds_no_mistake() {
    let host = TestServer::start_as(1, executor, with_tools);
    let printed = npm::printed("mcp_conformance.mjs", &[&host.address.to_string()]);
    let passed = printed.lines().filter_map(|line| line.strip_prefix("✓ ")?.split_once(": "));
    let expected = [
        ("server-initialize", "1 passed, 0 failed"),
        ("ping", "1 passed, 0 failed"),
        ("tools-list", "1 passed, 0 failed"),
        ("tools-call-simple-text", "1 passed, 0 failed"),
        ("tools-call-error", "1 passed, 0 failed"),
        ("tools-call-with-progress", "1 passed, 0 failed"),
        // streams that are ended and asked for again are not offered, and need not be
        ("server-sse-polling", "0 passed, 0 failed"),
        ("server-sse-multiple-streams", "1 passed, 0 failed"),
        ("dns-rebinding-protection", "2 passed, 0 failed"),
    ];
    assert_eq!(passed.collect::<Vec<_>>(), expected, "{printed}");
}
