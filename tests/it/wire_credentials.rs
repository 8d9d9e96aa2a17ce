//! The promise: a caller is known by what comes beside a message too, over HTTP with each request and
//! over WebSocket with the upgrade (FTN5 §2, FTN6 §1.2).

use asyncsteps_core::Template;
use asyncsteps_executor::iface::{Loader, Source};
use asyncsteps_executor::security::{
    Attempt, AuthOutcome, Credentials, Grant, Refusal, RequestContext, SECURITY_ERROR,
    SecurityLevel, SecurityProvider, User,
};
use asyncsteps_executor::{Executor, RequestSteps, builtin};
use asyncsteps_support::client::{Connection, post_with};
use asyncsteps_support::conform;
use asyncsteps_support::front::Front;
use asyncsteps_support::server::TestServer;
use asyncsteps_support::ws::Socket;
use asyncsteps_transport::http::RequestHead;
use expect_test::expect;
use serde_json::{Value, json};

const WHOAMI: &str = "conform.secret:1.0:whoami";

/// Bearer tokens, passwords that come with a header of their own, and addresses of the transport.
#[derive(Debug)]
struct Doors;

impl SecurityProvider for Doors {
    fn check(&self, attempt: &Attempt<'_>) -> AuthOutcome {
        let right = matches!(attempt.credentials(), Credentials::Password { password, .. }
            if password.expose() == "pass");
        let second = attempt.context().header("x-second-factor").is_some_and(|code| code == "7");
        let user = attempt.credentials().user().unwrap_or_default();
        AuthOutcome::Known(if right && second {
            Ok(grant(user))
        } else {
            Err(Refusal::credentials())
        })
    }

    fn identify(&self, request: &RequestContext<'_>) -> Option<AuthOutcome> {
        if request.header("x-by-address").is_some() {
            let peer = request.transport::<RequestHead>()?.peer()?;
            return Some(AuthOutcome::Known(Ok(grant(&peer.ip().to_string()))));
        }
        let token = request.header("authorization")?.strip_prefix("Bearer ")?.to_owned();
        Some(AuthOutcome::compute(move || match token.strip_prefix("token-of-") {
            Some(user) => Ok(grant(user)),
            None => Err(Refusal::new(SECURITY_ERROR, "Token is not valid")),
        }))
    }
}

fn grant(user: &str) -> Grant {
    Grant::new(User::new(user, SecurityLevel::SafeOps))
}

fn executor() -> Executor {
    let whoami = Template::build(|asi| {
        asi.add(|asi, ()| {
            let info = asi.request()?;
            let lid = info.user().map(|user| user.local_id().to_owned());
            let seen = info.headers().find(|(name, _)| *name == "x-seen").map(|(_, value)| value);
            asi.reply(json!({ "lid": lid, "gid": seen, "seclvl": info.level().name() }))
        });
    });
    Executor::builder()
        .security(Doors)
        .interface(conform::definition("conform.secret:1.0"), |functions| {
            functions.others_not_implemented();
            functions.add("whoami", &whoami);
        })
        .build()
        .expect("a right configuration")
}

/// What a message with this `sec` gets over HTTP and over WebSocket, with these headers.
fn answers(host: &TestServer, headers: &str, sec: &Value) -> String {
    let message = json!({ "f": WHOAMI, "sec": sec, "rid": "C1" }).to_string();
    let request = post_with("/ftn/", headers, message.as_bytes());
    let http = Connection::open(host.address).send(&request).receive().json();
    let mut socket = Socket::open_with(host.address, "/ftn/", headers);
    for _ in 0..2 {
        assert_eq!(socket.send(&message).receive(), http, "{headers}");
    }
    http.to_string()
}

fn tokens_passwords_and_connections_identify_the_caller(front: Front) {
    let host = front.start(1, executor);
    let password = "Authorization: Basic YW5uOnBhc3M=\r\nX-Second-Factor: 7\r\nX-Seen: yes\r\n";
    let mut out = String::new();
    for (headers, sec) in [
        ("", json!(null)),
        ("Authorization: Bearer token-of-ann\r\n", json!(null)),
        ("Authorization: Bearer forged\r\n", json!(null)),
        ("Authorization: Digest x\r\n", json!(null)),
        ("X-By-Address: yes\r\n", json!(null)),
        (password, json!(null)),
        ("Authorization: Basic YW5uOnBhc3M=\r\n", json!(null)),
        ("Authorization: Basic ?\r\n", json!(null)),
        // what the message says goes before what came beside it
        (password, json!("bob:pass")),
        (password, json!("bob:wrong")),
        ("Authorization: Bearer token-of-ann\r\n", json!("bob:wrong")),
    ] {
        out += &answers(&host, headers, &sec);
        out.push('\n');
    }
    expect![[r#"
        {"e":"SecurityError","edesc":"Anonymous not allowed","rid":"C1"}
        {"r":{"gid":null,"lid":"ann","seclvl":"SafeOps"},"rid":"C1"}
        {"e":"SecurityError","edesc":"Token is not valid","rid":"C1"}
        {"e":"SecurityError","edesc":"Authorization is not checked here but for: Basic","rid":"C1"}
        {"r":{"gid":null,"lid":"127.0.0.1","seclvl":"SafeOps"},"rid":"C1"}
        {"r":{"gid":"yes","lid":"ann","seclvl":"SafeOps"},"rid":"C1"}
        {"e":"SecurityError","edesc":"Basic Auth Verification Failed","rid":"C1"}
        {"e":"SecurityError","edesc":"Basic Auth Verification Failed","rid":"C1"}
        {"r":{"gid":"yes","lid":"bob","seclvl":"SafeOps"},"rid":"C1"}
        {"e":"SecurityError","edesc":"Basic Auth Verification Failed","rid":"C1"}
        {"e":"SecurityError","edesc":"Basic Auth Verification Failed","rid":"C1"}
    "#]]
    .assert_eq(&out);
}

/// A token that nothing checks is not ignored: its caller would be taken for an anonymous one.
fn credentials_that_nothing_checks_are_refused(front: Front) {
    let host = front.start(1, || {
        let ping =
            Loader::new([Source::builtin()]).load(&"futoin.anonping:1.0".parse().expect("a name"));
        let builder = Executor::builder().interface(ping.expect("a definition"), |functions| {
            functions.add("ping", &builtin::ping());
        });
        builder.build().expect("a right configuration")
    });
    let message = json!({ "f": "futoin.anonping:1.0:ping", "p": { "echo": 1 } }).to_string();
    let call = |header: &str| {
        let request = post_with("/ftn/", header, message.as_bytes());
        Connection::open(host.address).send(&request).receive().text().to_owned()
    };
    let refused = r#"{"e":"SecurityError","edesc":"Authorization is not checked here"}"#;
    for token in ["Bearer token", "Digest x", "token", "Basic", "Bearer \u{e9}"] {
        assert_eq!(call(&format!("Authorization: {token}\r\n")), refused, "{token}");
    }
    assert_eq!(call(""), r#"{"r":{"echo":1}}"#);
}

asyncsteps_support::on_both_fronts! {
    credentials_that_nothing_checks_are_refused,
    tokens_passwords_and_connections_identify_the_caller,
}
