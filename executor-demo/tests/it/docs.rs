//! The promise: the program describes its functions in OpenAPI, served and printed, and a person tries calls
//! in Swagger UI, without another server.
//!
//! The browser needs Node.js, npm and a Chromium: Debian's `chromium-headless-shell`, or what `CHROMIUM` names.

use std::env;
use std::process::Command;

use asyncsteps_support::npm;
use asyncsteps_support::shop::{Data, Program};
use serde_json::{Value, json};

use crate::pages::get_as;

const PROGRAM: &str = env!("CARGO_BIN_EXE_executor-demo");

#[test]
fn the_document_that_is_served_is_the_one_that_is_printed() {
    let output = Command::new(PROGRAM).arg("openapi").output().expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let responses = &printed["paths"]["/ftn/demo.shop/1.0/order"]["post"]["responses"];
    assert_eq!(responses["409"]["description"], "OutOfStock, KeyReused");
    assert_eq!(printed["paths"]["/ftn/demo.shop/1.0/order"]["get"], Value::Null);
    let own = ["/ftn/", "/ftn/demo.bank/1.0/capture", "/ftn/futoin.ping/1.0/ping"];
    let missing = |document: &Value| own.map(|path| document["paths"][path].is_null());
    assert_eq!(missing(&printed), [true; 3]);
    let data = Data::new();
    let program = Program::start_with(PROGRAM, &data, &["--host", "shop.example"]);
    let get = |host, path| get_as(host, program.address, path);
    let (status, served) = get("shop.example", "/openapi.json");
    assert_eq!(status, 200);
    assert_eq!(serde_json::from_str::<Value>(&served).expect("JSON"), printed);
    let (_, all) = get("shop.example", "/openapi.json?all");
    assert_eq!(missing(&serde_json::from_str(&all).expect("JSON")), [false; 3]);
    for path in ["/docs", "/docs/", "/docs/start.js", "/docs/swagger-ui.css"] {
        assert_eq!(get("shop.example", path).0, 200, "{path}");
    }
    assert_eq!(get("shop.example", "/docs/nothing").0, 404);
    assert_eq!(get("rebound.example", "/docs").0, 403);
    assert_eq!(get("rebound.example", "/openapi.json").0, 403);
}

#[test]
fn a_person_tries_calls_in_swagger_ui() {
    let browser = env::var("CHROMIUM").unwrap_or_else(|_| "chromium-headless-shell".to_owned());
    // `tests/run` installs it where it can, and says so where it cannot
    let Some(browser) = npm::find(&browser) else { return };
    let data = Data::new();
    let program = Program::start_with(PROGRAM, &data, &[]);
    let seen = npm::summary("docs.js", &[&program.address.to_string(), &browser]);
    let problem =
        json!({ "title": "Conflict", "status": 409, "code": "OutOfStock", "detail": "apple" });
    let expected = json!({
        "title": ["Shop", env!("CARGO_PKG_VERSION"), "OAS", "3.1"],
        "restocked": ["POST", 200, { "r": { "stock": 10 } }],
        "ordered": ["POST", 200, { "r": { "order": 1, "total": 90 } }],
        "refused": ["POST", 409, problem],
        "watched": [
            r#"emit: {"step":"reserved","sku":"apple"}"#,
            r#"emit: {"step":"paid","sku":null}"#,
            r#"result: {"r":{"order":2,"total":30}}"#,
        ],
        "errors": [],
    });
    assert_eq!(seen, expected);
}
