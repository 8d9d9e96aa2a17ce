//! The promise: programs that use the released FutoIn invoker from npm keep working (FTN7).
//!
//! `npm/shop.js` calls the demo shop with it, `npm/conform.js` every function of the `conform.*`
//! interfaces. Node.js and npm have to be installed; the packages come from the registry on the
//! first run, as the lock file says.

use asyncsteps_support::server::TestServer;
use asyncsteps_support::shop::{Account, Data, Shop};
use asyncsteps_support::{conform, npm};
use expect_test::expect_file;
use serde_json::{Value, json};

/// Folders of the definitions that AdvancedCCM loads.
const SPECS: [&str; 3] = [
    concat!(env!("CARGO_MANIFEST_DIR"), "/executor-demo/ifaces"),
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conform/ifaces"),
    concat!(env!("CARGO_MANIFEST_DIR"), "/engine/futoin/ifaces"),
];

/// Runs a script with the definitions and gives the summary that it printed.
fn summary(script: &str, end_point: &str) -> Value {
    npm::summary(script, &[end_point, SPECS[0], SPECS[1], SPECS[2]])
}

#[test]
fn the_released_invoker_can_do_business() {
    let data = Data::new();
    let shop = Shop::start(&data);
    let summary = summary("shop.js", &format!("http://{}/ftn/", shop.address));

    // AdvancedCCM finds a wrong parameter by itself, so the server is not asked
    let wrong = "Type mismatch for parameter: demo.shop:1.0:stock(sku) = \"not a SKU\"";
    for (order, (client, code)) in
        (1..).zip([("simple", "InvalidRequest"), ("advanced", "InvokerError")])
    {
        let expected = json!({
            "ping": { "echo": 123 },
            "restock": { "stock": 5 },
            "order": { "order": order, "total": 1000 },
            "get": {
                "order": order,
                "customer": client,
                "items": [{ "sku": client, "qty": 4, "price": 250 }],
                "total": 1000,
            },
            "list": { "orders": [{ "order": order, "total": 1000 }] },
            "tooMuch": { "error": "OutOfStock", "info": client },
            "stock": { "stock": 1 },
            "wrong": { "error": code, "info": wrong },
        });
        assert_eq!(summary[client], expected, "{client}");
    }
    let _ = shop.stop();
    let account = Account { stock: 1, restocked: 5, sold: 4 };
    assert_eq!(data.books().into_values().collect::<Vec<_>>(), [account; 2]);
}

#[test]
fn the_released_invoker_can_call_every_function() {
    let host = TestServer::start(1, conform::executor);
    let summary = summary("conform.js", &host.address.to_string());
    for (client, expected) in [
        ("SimpleCCM http", expect_file!["../npm/simple_http.txt"]),
        ("SimpleCCM ws", expect_file!["../npm/simple_ws.txt"]),
        ("AdvancedCCM http", expect_file!["../npm/advanced_http.txt"]),
        ("AdvancedCCM ws", expect_file!["../npm/advanced_ws.txt"]),
    ] {
        let results = summary[client].as_object().expect("its results").iter();
        let lines: String = results.map(|(name, got)| format!("{name}: {got}\n")).collect();
        expected.assert_eq(&lines);
    }
}
