//! Who calls: passwords, signatures, and the users that calls act for.

use asyncsteps_core::Template;
use asyncsteps_executor::security::{
    MacAlgorithm, MacKey, Secret, SecurityLevel, StaticUsers, User,
};
use asyncsteps_executor::{Caller, Executor, RequestSteps};
use asyncsteps_fabric::http::{Config, HttpFabric, Remote};
use asyncsteps_fabric::{Call, Fabric, Outcome};
use expect_test::expect;
use serde_json::{Value, json};

use crate::contract::nodes::FRONT;
use crate::contract::{definition, node};
use crate::http::raw_server::{listen, request};
use crate::http::serving::{Scheme, serve};

const KEY: &[u8] = b"MyLongTestSecretKey";

/// Calls a function on behalf of ann, and gives its result or its error.
async fn call(remote: Remote, interface: &str, function: &str) -> String {
    let fabric = HttpFabric::new(Config::new()).expect("a fabric");
    fabric.register(interface.parse().expect("a name"), remote).expect("a URL");
    let params = if function == "sum" { json!({ "a": 1, "b": 2 }) } else { json!({}) };
    let ann = Caller::from(&User::new("ann", SecurityLevel::PrivilegedOps));
    let call = Call::new(&format!("{interface}:{function}"), params).expect("it is a call");
    match fabric.call(call.for_caller(ann)).await {
        Ok(response) => response.into_value().to_string(),
        Err(error) => error.to_string(),
    }
}

#[actix::test]
async fn a_user_goes_along_where_that_is_configured() {
    let served = node("1.1", "one");
    let (address, running) = serve(served.executor.clone());
    let mut out = String::new();
    for scheme in [Scheme::Http, Scheme::WebSocket] {
        let remote = || Remote::new(scheme.url(address));
        let front = || remote().password(FRONT.0, Secret::new(FRONT.1));
        for remote in [
            remote(),
            front(),
            front().on_behalf_of_users(),
            remote().on_behalf_of_users(),
            remote().password(FRONT.0, Secret::new("wrong")),
        ] {
            out += &call(remote, "test.node:1.1", "whoami").await;
            out.push('\n');
        }
    }
    expect![[r#"
        "- Anonymous"
        "front System"
        "ann PrivilegedOps"
        SecurityError: On-behalf-of is not allowed
        SecurityError: Basic Auth Verification Failed
        "- Anonymous"
        "front System"
        "ann PrivilegedOps"
        SecurityError: On-behalf-of is not allowed
        SecurityError: Basic Auth Verification Failed
    "#]]
    .assert_eq(&out);
    drop(running);
}

#[actix::test]
async fn an_interface_that_requires_binary_data_is_called_with_bytes() {
    let definition = definition(&json!({
        "iface": "test.binary", "version": "1.0", "ftn3rev": "1.9",
        "funcs": { "echo": { "params": { "blob": "data" }, "result": { "blob": "data" } } },
        "requires": ["AllowAnonymous", "BinaryData"],
    }));
    let echo = Template::build(|asi| {
        asi.add(|asi, ()| {
            let blob: Value = asi.param("blob")?;
            asi.reply(json!({ "blob": blob }))
        });
    });
    let executor = Executor::builder()
        .security(StaticUsers::new().with_mac_key("bob", KEY))
        .interface(definition.clone(), |functions| {
            functions.add("echo", &echo);
        })
        .build()
        .expect("a right configuration");
    let (address, running) = serve(executor);
    let interface = || "test.binary:1.0".parse().expect("a name");
    for scheme in [Scheme::Http, Scheme::WebSocket] {
        let remote = || Remote::new(scheme.url(address)).definition(definition.clone());
        let signed = remote().signature("bob", MacAlgorithm::Sha256, MacKey::new(KEY));
        for remote in [remote(), signed] {
            let fabric = HttpFabric::new(Config::new()).expect("a fabric");
            fabric.register(interface(), remote).expect("a URL");
            let params = json!({ "blob": "AQID/w==" });
            let answer = crate::http::call(&fabric, "test.binary:1.0:echo", params.clone()).await;
            assert_eq!(answer, Ok(params), "{scheme:?}");
        }
    }
    drop(running);
}

#[actix::test]
async fn signed_calls_have_signed_results() {
    let definition = definition(&json!({
        "iface": "test.signed", "version": "1.0", "ftn3rev": "1.9",
        "funcs": {
            "sum": { "params": { "a": "integer", "b": "integer" }, "result": "string" },
        },
        "requires": ["MessageSignature"],
    }));
    let sum = Template::build(|asi| {
        asi.add(|asi, ()| {
            let (a, b): (i32, i32) = (asi.param("a")?, asi.param("b")?);
            let request = asi.request()?.handle();
            let user = request.user().map_or("-", |user| user.local_id()).to_owned();
            asi.reply(format!("{} {user}", a + b))
        });
    });
    let executor = Executor::builder()
        .security(StaticUsers::new().with_mac_key("bob", KEY))
        .interface(definition, |functions| {
            functions.add("sum", &sum);
        })
        .build()
        .expect("an executor");
    let (address, running) = serve(executor);
    for scheme in [Scheme::Http, Scheme::WebSocket] {
        let signed = |algorithm, key| {
            let remote = Remote::new(scheme.url(address));
            remote.signature("bob", algorithm, MacKey::new(key))
        };
        for algorithm in [
            MacAlgorithm::Md5,
            MacAlgorithm::Sha224,
            MacAlgorithm::Sha256,
            MacAlgorithm::Sha384,
            MacAlgorithm::Sha512,
        ] {
            let result = call(signed(algorithm, KEY), "test.signed:1.0", "sum").await;
            assert_eq!(result, "\"3 bob\"", "{algorithm:?}");
        }
        let wrong = call(signed(MacAlgorithm::Sha256, b"wrong"), "test.signed:1.0", "sum").await;
        assert!(wrong.starts_with("SecurityError: "), "{wrong}");
    }
    drop(running);
}

#[actix::test]
async fn results_without_the_right_signature_are_not_believed() {
    for (sec, expected) in [
        ("", "SecurityError: the answer has no signature"),
        (r#","sec":"AAAA""#, "SecurityError: the answer has a wrong signature"),
        (r#","sec":5"#, "SecurityError: the answer has a wrong signature"),
    ] {
        let body = format!(r#"{{"r":"3"{sec}}}"#);
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/futoin+json\r\n\
            Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let address = listen(move |mut connection| {
            let answer = answer.clone();
            async move {
                use tokio::io::AsyncWriteExt;
                request(&mut connection).await;
                connection.write_all(answer.as_bytes()).await.expect("the client waits");
            }
        })
        .await;
        let fabric = HttpFabric::new(Config::new()).expect("a fabric");
        let key = MacKey::new(KEY);
        let remote = Remote::new(Scheme::Http.url(address));
        let remote = remote.signature("bob", MacAlgorithm::Sha256, key);
        fabric.register("test.node:1.1".parse().expect("a name"), remote).expect("a URL");
        let call = Call::new("test.node:1.1:name", ()).expect("it is a call");
        let error = fabric.call(call).await.expect_err("it is not signed");
        assert_eq!((error.to_string().as_str(), error.outcome()), (expected, Outcome::Unknown));
    }
}
