//! The promise: programs that use the released FutoIn invoker from npm keep working (FTN7).
//!
//! `npm/shop.js` calls the demo shop with it. Node.js and npm have to be installed; the packages
//! come from the registry on the first run, as the lock file says.

use std::path::Path;
use std::process::{Command, Stdio};

use asyncsteps_support::shop::{Account, Data, Shop};
use serde_json::{Value, json};

/// The folder of the client.
const CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/npm");

/// Folders of the definitions that AdvancedCCM loads.
const SPECS: [&str; 2] = [
    concat!(env!("CARGO_MANIFEST_DIR"), "/executor-demo/ifaces"),
    concat!(env!("CARGO_MANIFEST_DIR"), "/actors/ifaces"),
];

/// Runs a program in the folder of the client and gives what it printed.
fn run(program: &str, args: &[&str]) -> Vec<u8> {
    let output = Command::new(program)
        .args(args)
        .current_dir(CLIENT)
        .stderr(Stdio::inherit())
        .output()
        .unwrap_or_else(|error| panic!("{program} is needed: {error}"));
    assert!(output.status.success(), "{program} {args:?}: {}", output.status);
    output.stdout
}

#[test]
fn the_released_invoker_can_do_business() {
    if !Path::new(CLIENT).join("node_modules/.package-lock.json").exists() {
        run("npm", &["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
    }
    let data = Data::new();
    let shop = Shop::start(&data);
    let end_point = format!("http://{}/ftn/", shop.address);
    let printed = run("node", &["shop.js", &end_point, SPECS[0], SPECS[1]]);
    let summary: Value = serde_json::from_slice(&printed).expect("a summary");

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
