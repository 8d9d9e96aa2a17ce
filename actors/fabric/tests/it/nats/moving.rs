//! What ends or changes while nodes are at work, and costs no call: the server's life, credentials, permissions.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use asyncsteps_core::codes;
use asyncsteps_executor::health::NotReady;
use asyncsteps_fabric::nats::{Config, NatsFabric};
use asyncsteps_fabric::{Call, CallError, Endpoint, Fabric, Outcome, Response, ServeGuard};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::future::join;
use nkeys::KeyPair;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::contract::{Node, node};
use crate::nats::needs_server;
use crate::nats::raw::RawClient;
use crate::nats::server::NatsServer;

/// Longer than anything takes here.
const SOON: Duration = Duration::from_secs(60);

/// A folder of files; it is removed when this is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("fabric-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }

    /// Writes a file as a whole, as programs do that rotate secrets.
    fn write(&self, name: &str, text: &str) -> String {
        let (file, fresh) = (self.0.join(name), self.0.join("fresh"));
        fs::write(&fresh, text).expect("it is written");
        fs::rename(&fresh, &file).expect("the same disk");
        file.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn config(servers: &str) -> Config {
    Config::new(servers).ping_interval(Duration::from_millis(200))
}

async fn join_with(config: Config) -> NatsFabric {
    NatsFabric::connect(config).await.expect("it joins")
}

async fn serve(fabric: &NatsFabric, served: &Node) -> ServeGuard {
    let endpoints = Endpoint::all(&served.executor);
    fabric.serve(endpoints, served.executor.clone()).await.expect("it serves")
}

async fn call(fabric: &NatsFabric) -> Result<Value, CallError> {
    let call = Call::new("test.node:1.1:name", ()).expect("it is a call");
    fabric.call(call).await.map(Response::into_value)
}

/// Calls as long as a condition does not hold; each of the calls succeeds.
async fn calls_until(fabric: &NatsFabric, mut is_over: impl FnMut() -> bool) {
    let calls = async {
        while !is_over() {
            let both = join(call(fabric), call(fabric)).await;
            assert_eq!(both, (Ok(json!("one")), Ok(json!("one"))));
        }
    };
    timeout(SOON, calls).await.expect("it comes to an end");
}

#[actix::test]
async fn nodes_leave_a_server_that_ends_before_it_does() {
    needs_server!();
    let folder = Folder::new("lame");
    let options = folder.write("server.conf", "lame_duck_grace_period: \"2s\"\n");
    let [mut ends, stays] = NatsServer::cluster(&["-c", &options]);
    let urls = [ends.url(), stays.url()].join(",");
    let served = node("1.1", "one");
    let (serves, caller) = (join_with(config(&urls)).await, join_with(config(&urls)).await);
    let guard = serve(&serves, &served).await;
    while call(&caller).await.is_err() {}
    ends.signal("-USR2");
    calls_until(&caller, || ends.has_ended()).await;
    assert_eq!((serves.connection_losses(), caller.connection_losses()), (0, 0));
    guard.drain(Duration::ZERO).await;
}

/// A token that an issuer has signed, as NATS has them.
fn jwt(issuer: &KeyPair, subject: &str, expires: Option<u64>, nats: &Value) -> String {
    let encode = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
    let head = encode(&json!({ "typ": "JWT", "alg": "ed25519-nkey" }));
    let mut claims = json!({
        "jti": "1", "iat": 1, "iss": issuer.public_key(), "name": "test", "sub": subject, "nats": nats,
    });
    if let Some(expires) = expires {
        claims["exp"] = expires.into();
    }
    let signed = format!("{head}.{}", encode(&claims));
    let signature = issuer.sign(signed.as_bytes()).expect("it has a seed");
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

/// The file of a user whose credentials expire so many seconds from now.
fn credentials(account: &KeyPair, seconds: u64) -> String {
    let user = KeyPair::new_user();
    let now = SystemTime::UNIX_EPOCH.elapsed().expect("it is later");
    let limits = json!({ "type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1 });
    let expires = Some(now.as_secs() + seconds);
    let jwt = jwt(account, &user.public_key(), expires, &limits);
    let seed = user.seed().expect("it has one");
    format!(
        "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )
}

#[actix::test]
async fn credentials_are_rotated_under_load() {
    needs_server!();
    let folder = Folder::new("credentials");
    let (operator, account) = (KeyPair::new_operator(), KeyPair::new_account());
    let of_operator = json!({ "type": "operator", "version": 2 });
    let limits = json!({
        "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true,
        "conn": -1, "leaf": -1,
    });
    let of_account = json!({ "type": "account", "version": 2, "limits": limits });
    let options = format!(
        "operator: {}\nresolver: MEMORY\nresolver_preload: {{ {}: {} }}\n",
        jwt(&operator, &operator.public_key(), None, &of_operator),
        account.public_key(),
        jwt(&operator, &account.public_key(), None, &of_account),
    );
    let server = NatsServer::start(&["-c", &folder.write("server.conf", &options)]);
    let file = folder.write("user.creds", &credentials(&account, 3));
    let join = || join_with(config(&server.url()).credentials_file(&file));
    let (serves, caller) = (join().await, join().await);
    let served = node("1.1", "one");
    let guard = serve(&serves, &served).await;
    let begun = Instant::now();
    folder.write("user.creds", &credentials(&account, 600));
    let is_expired = || begun.elapsed() > Duration::from_secs(5);
    calls_until(&caller, is_expired).await;
    assert_eq!((serves.connection_losses(), caller.connection_losses()), (0, 0));
    guard.drain(Duration::ZERO).await;
}

#[actix::test]
async fn a_token_that_the_server_refuses_is_read_again() {
    needs_server!();
    let folder = Folder::new("token");
    let options = |token: &str| format!("authorization {{ token: {token} }}\n");
    let server = NatsServer::start(&["-c", &folder.write("server.conf", &options("first"))]);
    let file = folder.write("token", "first\n");
    let caller = join_with(config(&server.url()).token_file(&file)).await;
    assert!(caller.is_connected());
    folder.write("server.conf", &options("second"));
    server.signal("-HUP");
    let lost = async {
        while caller.is_connected() {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, lost).await.expect("the server ends the connection");
    folder.write("token", "second\n");
    let back = async {
        while !caller.is_connected() {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, back).await.expect("it reads the file");
}

/// Waits until the node is ready, or is not because of this; returns what is wrong.
async fn faults(served: &Node, is_ready: bool) -> Vec<String> {
    let looks = async {
        loop {
            let readiness = served.executor.readiness().await;
            if readiness.is_ready == is_ready {
                assert!(readiness.is_ready || readiness.reasons == [NotReady::Disconnected]);
                return readiness.faults;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, looks).await.expect("it gets so")
}

#[actix::test]
async fn what_the_server_does_not_permit_is_said_and_tried_again() {
    needs_server!();
    let folder = Folder::new("permissions");
    let options = |denied: &str| {
        format!(
            "authorization {{ users: [\n\
             {{ user: node, password: p, permissions: {{ {denied} }} }}\n\
             {{ user: caller, password: p, permissions: {{ publish: {{ deny: \"ftn.v1.rpc.secret.>\" }} }} }}\n\
             ] }}\n"
        )
    };
    let all = "subscribe: \">\", publish: \">\"";
    let server = NatsServer::start(&["-c", &folder.write("server.conf", &options(all))]);
    let url = |user: &str| server.url().replace("nats://", &format!("nats://{user}:p@"));
    let (serves, caller) =
        (join_with(config(&url("node"))).await, join_with(config(&url("caller"))).await);
    let served = node("1.1", "one");
    let guard = serve(&serves, &served).await;
    let state = serves.clone();
    let _dependency = served.executor.depends_on(move || state.connection_state());
    calls_until(&caller, || true).await;
    assert!(served.executor.readiness().await.is_ready);

    let denied = "subscribe: { deny: \"ftn.v1.rpc.test-node.1.1.*\" }, publish: \">\"";
    folder.write("server.conf", &options(denied));
    server.signal("-HUP");
    let said = "the NATS server does not permit a subscription to ftn.v1.rpc.test-node.1.1.*";
    while faults(&served, false).await != [said] {}
    call(&caller).await.expect_err("nothing serves it");
    folder.write("server.conf", &options(all));
    server.signal("-HUP");
    assert_eq!(faults(&served, true).await, Vec::<String>::new());
    let answered = async { while call(&caller).await.is_err() {} };
    timeout(SOON, answered).await.expect("it is served again");

    let secret = Call::new("secret:1.0:f", ()).expect("it is a call").within(SOON * 10);
    let refused = timeout(SOON, caller.call(secret)).await.expect("at once").expect_err("denied");
    assert_eq!(
        (refused.code(), refused.outcome()),
        (codes::SECURITY_ERROR, Outcome::NotCarriedOut)
    );
    let info = "the NATS server permits no messages to ftn.v1.rpc.secret.1.0.f";
    assert_eq!(refused.info(), Some(info));
    let fault = caller.connection_state().fault;
    assert_eq!(
        fault.as_deref(),
        Some("the NATS server does not permit a message to ftn.v1.rpc.secret.1.0.f")
    );
    guard.drain(Duration::ZERO).await;
}

#[actix::test]
async fn nodes_of_one_name_find_each_other() {
    needs_server!();
    let server = NatsServer::start(&[]);
    let served = node("1.1", "one");
    let fabric = join_with(config(&server.url()).node("twin".parse().expect("a name"))).await;
    let guard = serve(&fabric, &served).await;
    // one that stood still when this one joined, and goes on
    let mut other = RawClient::connect(&server).await;
    other.subscribe("ftn.v1.ctl.all.ping").await;
    other.settle().await;
    let described = json!({
        "node": "twin", "interfaces": ["test.node:1.1"], "in_flight": 0, "is_draining": false, "id": "2",
    });
    let (nodes, ()) = join(fabric.nodes(), async {
        let reply = other.message().await.reply.expect("it is to be answered");
        other.publish(&reply, "", described.to_string().as_bytes()).await;
        other.settle().await;
    })
    .await;
    assert_eq!(nodes.map(|nodes| nodes.len()), Ok(1));
    let twin = "another node has the name twin";
    assert_eq!(fabric.connection_state().fault.as_deref(), Some(twin));
    // it looks until the other one has left
    let alone = async {
        while fabric.connection_state().fault.is_some() {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, alone).await.expect("it looks again");
    guard.drain(Duration::ZERO).await;
}
