//! The promise: tokens that another implementation of JSON Web Tokens signs, the npm package `jose`, identify callers
//! over HTTP and over WebSocket (RFC 7519, FTN5 §2), and so do those of an identity provider, the npm package
//! `oidc-provider`, while it rotates its keys.

use asyncsteps_executor::Executor;
use asyncsteps_executor::security::{JwtKeys, JwtProvider, SecurityLevel};
use asyncsteps_fabric::http::{self, Config};
use asyncsteps_support::front::Front;
use asyncsteps_support::ws::Socket;
use asyncsteps_support::{conform, npm};
use serde_json::{Map, json};

fn executor(users: JwtProvider) -> Executor {
    Executor::builder()
        .security(users)
        .interface(conform::definition("conform.secret:1.0"), |functions| {
            functions.others_not_implemented();
            functions.add("whoami", &conform::whoami());
        })
        .build()
        .expect("a right configuration")
}

fn tokens_of_another_implementation_identify_callers(front: Front) {
    let keys = npm::summary("tokens.js", &[]);
    let published = JwtKeys::parse(&keys["published"].to_string()).expect("a JWK set");
    let users = JwtProvider::new("https://id.test/", "shop", JwtKeys::default())
        .role("clerk", SecurityLevel::SafeOps);
    let host = front.start(1, {
        let users = users.clone();
        || executor(users)
    });
    users.set_keys(published);
    let url = format!("http://{}/ftn/", host.address);
    let seen = npm::summary("tokens.js", &[&url, &keys["private"].to_string()]);
    let error = |code: &str, text: &str| json!({ "e": code, "edesc": text });
    assert_eq!(seen["anonymous"], error("SecurityError", "Anonymous not allowed"));
    for algorithm in ["HS256", "HS512", "RS256", "RS384", "PS256", "ES256", "ES384", "EdDSA"] {
        let user = format!("ann by {algorithm}");
        let who = json!({ "r": { "lid": user, "gid": null, "seclvl": "SafeOps" } });
        assert_eq!(seen[algorithm], who);
        let other = &seen[format!("{algorithm} for another")];
        assert_eq!(*other, error("SecurityError", "Token is not valid"), "{algorithm}");
        let old = &seen[format!("{algorithm} of yesterday")];
        assert_eq!(*old, error("PleaseReauth", "Info (the token has expired)"), "{algorithm}");
    }
    assert_eq!(seen.as_object().map(Map::len), Some(2 + 3 * 8));

    // the upgrade says who it is, for each message anew
    let token = seen["token"].as_str().expect("a token");
    let mut socket =
        Socket::open_with(host.address, "/ftn/", &format!("Authorization: Bearer {token}\r\n"));
    let message = r#"{"f":"conform.secret:1.0:whoami","rid":"C1"}"#;
    let mut ask = || socket.send(message).receive();
    assert_eq!(ask()["r"]["lid"], "ann by HS256");
    // a page can set no header but this one
    let protocols = format!("Sec-WebSocket-Protocol: bearer, {token}\r\n");
    let mut page = Socket::open_with(host.address, "/ftn/", &protocols);
    assert_eq!(page.send(message).receive()["r"]["lid"], "ann by HS256");
    users.set_keys(JwtKeys::default());
    assert_eq!(ask()["edesc"], "Token is not valid");
    assert_eq!(page.send(message).receive()["edesc"], "Token is not valid");
}

#[test]
fn a_rotation_at_the_identity_provider_refuses_nobody() {
    let provider = npm::Server::start("identity.js", &[]);
    let issuer = format!("http://{}", provider.address);
    let fetch = http::fetch(&Config::new()).expect("TLS works");
    let users = JwtProvider::discover(&issuer, "shop", fetch);
    let host = Front::Own.start(2, || executor(users));
    let url = format!("http://{}/ftn/", host.address);
    let seen = npm::summary("identity.js", &[&issuer, &url]);
    assert_eq!((&seen["typ"], &seen["keys"]), (&json!("at+jwt"), &json!(4)));
    assert_eq!((&seen["answers"], &seen["others"]), (&json!(4 * 21), &json!([])), "{seen}");
    // an ID token for a client that is named as the service
    assert_eq!((&seen["id"]["aud"], &seen["id"]["sub"]), (&json!("shop"), &json!("ann")));
    assert_eq!(seen["by_id"]["edesc"], "Token is not valid");
}

asyncsteps_support::on_both_fronts! { tokens_of_another_implementation_identify_callers }
