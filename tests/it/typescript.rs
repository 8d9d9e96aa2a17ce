//! The promise: TypeScript that is written from definitions compiles, and calls and is called over HTTP and WebSocket,
//! under Node.js and in a browser.

use std::path::{Path, PathBuf};
use std::{env, fs};

use asyncsteps_futoin::iface::{Loader, Source};
use asyncsteps_futoin::typescript;
use asyncsteps_support::server::TestServer;
use asyncsteps_support::shop::{self, Data, Shop};
use asyncsteps_support::{conform, npm};
use executor_demo::Config;
use executor_demo::journal::JournalPlace;
use serde_json::{Value, json};

/// Folders with the definitions of the repository.
const FOLDERS: [&str; 5] = [
    "executor-demo/ifaces",
    "tests/conform/ifaces",
    "engine/futoin/ifaces",
    "actors/observe/ifaces",
    "actors/durable/ifaces",
];

/// Writes the modules of all interfaces of the repository to a folder.
fn write_modules(folder: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut loader = Loader::new(FOLDERS.map(|folder| Source::folder(root.join(folder))));
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).expect("a folder of tests");
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).expect("a module");
    write("futoin.ts", typescript::CLIENT);
    for file in
        FOLDERS.iter().flat_map(|folder| fs::read_dir(root.join(folder)).expect("it is there"))
    {
        let name = file.expect("it is read").file_name().into_string().expect("a text");
        let id = name.strip_suffix("-iface.json").expect("a definition").replace('-', ":");
        let definition = loader.load(&id.parse().expect("a name")).expect("a definition");
        write(&typescript::file_name(&definition), &typescript::interface(&definition));
    }
}

/// What the program `typescript/main.ts` gets, under Node.js or in this browser.
fn seen(name: &str, browser: Option<&str>) -> Value {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    write_modules(&folder);
    let data = Data::new();
    // orders are durable, so that one whose connection is lost goes on
    let journal = Some(JournalPlace::File(data.file().with_extension("journal")));
    let shop = Shop::serve(Config { journal, ..shop::config(&data) });
    let host = TestServer::start(1, conform::executor);
    let (shop_at, host_at) = (shop.address.to_string(), host.address.to_string());
    let folder = folder.to_str().expect("a text");
    let args = [folder, &shop_at, &host_at].into_iter().chain(browser);
    let seen = npm::summary("typescript.js", &args.collect::<Vec<_>>());
    let _ = shop.stop();
    seen
}

fn expected() -> Value {
    let business = |order: u32, sku: &str| {
        json!({
            "restock": { "stock": 5 },
            "order": { "order": order, "total": 1000 },
            "list": 1,
            "stock": "1.0",
            "tooMuch": format!("{sku} is out of stock"),
            "unknown": "UnknownSku: none",
            "wrong": "InvalidRequest: Type mismatch for parameter: demo.shop:1.0:stock(sku) = \"not a SKU\"",
            "mistyped": "InvalidRequest: Type mismatch for parameter: demo.shop:1.0:stock(sku) = \"7\"",
        })
    };
    let types = json!({
        "b": null, "i": null, "si": null, "r": null, "s": null, "w": null, "c": null, "l": [1], "ws": null,
        "p": { "x": 1, "y": 2, "label": null }, "cm": { "a": 1 }, "e": 7, "f": ["r", 1], "id": "word",
        "uid": null, "m": null, "a": null, "x": [null],
    });
    let (reserved, paid) =
        (json!({ "step": "reserved", "sku": "watched" }), json!({ "step": "paid", "sku": null }));
    let result =
        |order: u32| json!({ "type": "result", "result": { "order": order, "total": 250 } });
    json!({
        "sell": {
            "http": business(1, "over-http"),
            "ws": business(2, "over-ws"),
            "closed": "ConnectError: the WebSocket is closed",
        },
        "watch": {
            "whole": [reserved, paid, result(3)],
            "lost": [reserved, paid, result(4)],
            "behind": [null, "1", "2", null],
            "lostWithoutKey": [reserved, "CommError: the events ended without a result"],
            "slow": [{ "type": "lost", "count": 3 }, { "type": "result", "result": 7 }],
            "known": [reserved, paid, result(4)],
            "refused": ["InvalidRequest: Type mismatch for parameter: demo.shop:1.0:order(customer) = \"\""],
            "aborted": ["Late"],
        },
        "talk": {
            "echo": { "msg": "hé", "n": 1, "opt": null },
            "notify": "{}",
            "answer": 43,
            "words": "ab cd",
            "error": "MyError: Details of MyError",
            "hidden": "InternalError: Not expected error",
            "types": { "got": types },
            "defaults": 18,
            "variant": "text",
            // what was not carried out is called again, at most three times
            "again": { "2 ConnectError": "{\"n\":1} 3", "9 ConnectError": "ConnectError 4", "2 CommError": "CommError 1" },
            "opened": {
                "lost": "CommError: the WebSocket was closed (1000)",
                "echo": "again",
                "made": 2,
                "got": [1, 1],
                "aborted": ["Late: not by the server"],
                "closed": "ConnectError: the WebSocket is closed",
            },
            // the token arrives
            "token": "SecurityError: Authorization is not checked here but for: Basic",
            "exact": [
                [9_007_199_254_740_992_u64, -0.5, 1e300, 0],
                "InvalidRequest: JSON does not have the number 1152921504606847000",
                "InvalidRequest: JSON does not have the number NaN",
                "CommError: JavaScript has no number 9007199254740993",
                "CommError: JavaScript has no number 1e400",
                "{\"n\":\"\\\"9007199254740993\"}",
            ],
            // each push is answered, also by an error
            "got": [1, 2, 3, 4],
            "sum": 50,
            "slow": "CommError: the WebSocket was closed (1000)",
            "gone": "ConnectError: ws://127.0.0.1:1/",
        },
    })
}

#[test]
fn clients_call_and_are_called_under_node() {
    assert_eq!(seen("typescript-node", None), expected());
}

#[test]
fn clients_call_and_are_called_in_a_browser() {
    let browser = env::var("CHROMIUM").unwrap_or_else(|_| "chromium-headless-shell".to_owned());
    // `tests/run` installs it where it can, and says so where it cannot
    let Some(browser) = npm::find(&browser) else { return };
    assert_eq!(seen("typescript-browser", Some(&browser)), expected());
}
