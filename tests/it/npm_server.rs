//! The promise: functions behind the released FutoIn executor from npm are called as any others are (FTN7).
//!
//! `npm/serve.js` serves functions of the `conform.*` interfaces. Node.js and npm have to be installed; the
//! packages come from the registry on the first run, as the lock file says.

use std::sync::Arc;

use asyncsteps_core::Template;
use asyncsteps_executor::security::{MacAlgorithm, MacKey, Secret};
use asyncsteps_executor::{CallSteps, Caller, Executor, RequestSteps};
use asyncsteps_fabric::http::{Config, HttpFabric, Remote};
use asyncsteps_fabric::{Call, Client, Fabric};
use asyncsteps_support::{conform, definition, npm};
use expect_test::expect;
use serde_json::{Value, json};

/// Folders of the definitions that the services load.
const SPECS: [&str; 2] = [
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conform/ifaces"),
    concat!(env!("CARGO_MANIFEST_DIR"), "/engine/futoin/ifaces"),
];

/// Calls one function after the other, and gives their results and errors as lines.
async fn visit(fabric: &HttpFabric) -> String {
    let mut out = String::new();
    for (function, params) in [
        ("conform.main:1.2:echo", json!({ "msg": "é€😀" })),
        ("conform.main:1.0:echo", json!({ "msg": "hi", "n": 7, "opt": "x" })),
        ("conform.main:1.2:fail", json!({ "code": "MyError" })),
        ("conform.main:1.2:fail", json!({ "code": "Undeclared" })),
        ("conform.main:1.2:notify", json!({ "v": 5 })),
        ("conform.main:1.2:lastNotify", json!({})),
        ("conform.main:1.2:answer", json!({})),
        ("conform.main:1.2:words", json!({})),
        ("conform.main:1.2:echo", json!({ "n": "text" })),
        ("conform.main:1.2:noSuch", json!({})),
        ("conform.main:1.3:echo", json!({ "msg": "hi" })),
        ("conform.secret:1.0:whoami", json!({})),
        ("conform.secret:1.0:priv", json!({})),
        ("conform.signed:1.0:sum", json!({ "a": 1, "b": 2 })),
    ] {
        let call = Call::new(function, params).expect("it is a call");
        match fabric.call(call).await {
            Ok(response) => out += &format!("{function}: {}\n", response.into_value()),
            Err(error) => out += &format!("{function}: {error} ({:?})\n", error.outcome()),
        }
    }
    out
}

/// A fabric with the three interfaces.
fn fabric(url: &str) -> HttpFabric {
    let fabric = HttpFabric::new(Config::new()).expect("a fabric");
    let register = |interface: &str, remote| {
        fabric.register(interface.parse().expect("a name"), remote).expect("a URL");
    };
    let key = MacKey::new(b"MyLongTestSecretKey");
    register("conform.main:1.2", Remote::new(url));
    register("conform.secret:1.0", Remote::new(url).password("user", Secret::new("pass")));
    let signed = Remote::new(url).definition(conform::definition("conform.signed:1.0"));
    register("conform.signed:1.0", signed.signature("hmacuser", MacAlgorithm::Sha256, key));
    fabric
}

#[actix::test]
async fn functions_of_the_released_executor_can_be_called() {
    let server = npm::Server::start("serve.js", &SPECS);
    let over_http = visit(&fabric(&format!("http://{}/ftn/", server.address))).await;
    expect![[r#"
        conform.main:1.2:echo: {"msg":"é€😀","n":1,"opt":null}
        conform.main:1.0:echo: {"msg":"hi","n":7,"opt":"x"}
        conform.main:1.2:fail: MyError: Details of MyError (Answered)
        conform.main:1.2:fail: InternalError: Not expected error (Answered)
        conform.main:1.2:notify: null
        conform.main:1.2:lastNotify: {"v":5}
        conform.main:1.2:answer: 42
        conform.main:1.2:words: ["ab","cd"]
        conform.main:1.2:echo: InvalidRequest: Missing parameter: conform.main:1.2:echo(msg) (Answered)
        conform.main:1.2:noSuch: InvalidRequest: Unknown interface function: noSuch (Answered)
        conform.main:1.3:echo: ConnectError: conform.main:1.3:echo: conform.main:1.2 is registered, which does not serve it (NotCarriedOut)
        conform.secret:1.0:whoami: {"gid":null,"lid":null,"seclvl":"SafeOps"}
        conform.secret:1.0:priv: PleaseReauth: PrivilegedOps (Answered)
        conform.signed:1.0:sum: {"seclvl":"PrivilegedOps","sum":3}
    "#]].assert_eq(&over_http);
    let over_websocket = visit(&fabric(&format!("ws://{}/ftn/", server.address))).await;
    assert_eq!(over_websocket, over_http);
}

#[actix::test]
async fn steps_call_them_as_functions_of_their_own_executor() {
    let server = npm::Server::start("serve.js", &SPECS);
    let file = r#"{
        "iface": "test.front", "version": "1.0", "ftn3rev": "1.9",
        "funcs": { "greet": { "params": { "name": "string" }, "result": "string" } },
        "requires": [ "AllowAnonymous" ]
    }"#;
    let greet = Template::build(|asi| {
        asi.add(|asi, ()| {
            let name: String = asi.param("name")?;
            asi.call::<Value>("conform.main:1.2:echo", json!({ "msg": name }))?;
            asi.add(|asi, (echo,): (Value,)| asi.reply(format!("Hello, {}!", echo["msg"])));
            Ok(())
        });
    });
    let fabric = fabric(&format!("ws://{}/ftn/", server.address));
    let executor = Executor::builder()
        .invoker(Client::new(Arc::new(fabric)))
        .interface(definition("test.front:1.0", file), |functions| {
            functions.add("greet", &greet);
        })
        .build()
        .expect("an executor");
    let params = json!({ "name": "Ann" });
    let greeting = executor.call_for::<String>(Caller::anonymous(), "test.front:1.0:greet", params);
    assert_eq!(greeting.await.expect("both serve"), "Hello, \"Ann\"!");
}
