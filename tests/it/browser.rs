//! The promise: pages in browsers can use an executor directly, over WebSocket in both directions,
//! and over HTTP from another site.
//!
//! It needs Node.js, npm and a Chromium: Debian's `chromium-headless-shell`, or what `CHROMIUM` names.

use std::env;

use asyncsteps_support::server::TestServer;
use asyncsteps_support::{conform, npm};
use asyncsteps_transport::http::Cors;
use serde_json::json;

#[test]
fn a_page_calls_and_is_called() {
    let host = TestServer::start_as(1, conform::executor, |service| service.cors(Cors::any()));
    let browser = env::var("CHROMIUM").unwrap_or_else(|_| "chromium-headless-shell".to_owned());
    // `tests/run` installs it where it can, and says so where it cannot
    let Some(browser) = npm::find(&browser) else { return };
    let seen = npm::summary("browser.js", &[&host.address.to_string(), &browser]);
    let echo = json!({ "msg": "hé", "n": 1, "opt": null });
    let expected = json!({
        "text": { "r": echo, "rid": "C1" },
        "bytes": { "r": echo, "rid": "C2" },
        // a page that writes text gets text
        "kinds": ["string", "object"],
        "error": { "e": "MyError", "edesc": "Details of MyError", "rid": "C3" },
        "first": { "r": { "waited": 1 }, "rid": "C5" },
        "all": 2,
        "acks": { "r": { "sum": 30 }, "rid": seen["acks"]["rid"] },
        "events": [1, 2, 3],
        "closed": { "code": 1000, "wasClean": true },
        "http": { "status": 200, "message": { "r": 42 } },
    });
    assert_eq!(seen, expected);
}
