//! The promise: users may be those of an AuthService (FTN8.1). It is asked for passwords and signatures, not
//! for each message, and not more at once than it may be; what it refuses, or cannot say, lets no one in.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use asyncsteps_actors::budget::Limits;
use asyncsteps_core::{Error, Template, codes};
use asyncsteps_executor::channel::{Channel, ChannelKind};
use asyncsteps_executor::iface::{Loader, Source};
use asyncsteps_executor::message::{Data, Request};
use asyncsteps_executor::security::{
    AuthService, MacAlgorithm, MacKey, MemoryOptions, SecurityProvider, StaticUsers,
};
use asyncsteps_executor::{
    Executor, Functions, Incoming, Invocation, Invoker, Invoking, RequestSteps,
};
use expect_test::expect;
use serde_json::{Value, json};

const ANN: &str = "AAAAAAAAAAAAAAAAAAAAAA";
const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

/// The functions of FTN8.1 §3.1 that are called, with the types of FTN8 §3.1 that matter.
fn stateless() -> Value {
    let sec = json!({ "type": "map", "fields": { "user": "UserID", "secret": "Password" } });
    let mac =
        json!({ "type": "map", "fields": { "user": "UserID", "algo": "Algo", "sig": "string" } });
    let source = json!({ "type": "map", "fields": {
        "user_agent": { "type": "string", "optional": true },
        "source_ip": { "type": "IP", "optional": true },
        "misc": { "type": "map", "optional": true } } });
    let info = json!({ "type": "map", "fields": { "local_id": "string", "global_id": "string" } });
    json!({
        "iface": "futoin.auth.stateless", "version": "0.4", "ftn3rev": "1.9",
        "types": {
            "UserID": { "type": "string", "regex": "^[a-zA-Z0-9+/]{22}$" },
            "Password": { "type": "string", "minlen": 8, "maxlen": 32 },
            "Algo": { "type": "enum", "items": ["HMD5", "HS256", "HS384", "HS512"] },
            "IP": { "type": "string", "regex": "^[0-9]{1,3}(\\.[0-9]{1,3}){3}$" },
            "Base": { "type": "data", "minlen": 8 },
            "Clear": sec, "Mac": mac, "Source": source, "Info": info,
        },
        "funcs": {
            "checkClear": { "params": { "sec": "Clear", "source": "Source" }, "result": "Info",
                "throws": ["SecurityError"], "seclvl": "SafeOps" },
            "checkMAC": { "params": { "base": "Base", "sec": "Mac", "source": "Source" },
                "result": "Info", "throws": ["SecurityError"], "seclvl": "PrivilegedOps" },
            "getMACSecret": { "params": { "user": "UserID" }, "result": "string",
                "throws": ["UnknownUser", "NotSet"], "seclvl": "PrivilegedOps" },
        },
        "requires": ["SecureChannel", "MessageSignature"],
    })
}

/// An AuthService with one user, and what it was asked.
#[derive(Clone)]
struct Users {
    executor: Executor,
    asked: Arc<Mutex<Vec<Invocation>>>,
    /// How long it takes to answer.
    takes: Duration,
    /// It is unreachable.
    is_gone: Arc<Mutex<bool>>,
}

impl Users {
    fn new() -> Self {
        let info = || json!({ "local_id": ANN, "global_id": "ann@example.com" });
        let refuse = || Error::with_info(codes::SECURITY_ERROR, format!("no such user: {ANN}"));
        let clear = Template::build(|asi| {
            asi.add(move |asi, ()| {
                let sec: Value = asi.param("sec")?;
                match sec["user"] == ANN && sec["secret"] == "open sesame" {
                    true => asi.reply(info()),
                    false => Err(refuse().into()),
                }
            });
        });
        let mac = Template::build(|asi| {
            asi.add(move |asi, ()| {
                let (sec, base): (Value, Data) = (asi.param("sec")?, asi.param("base")?);
                let Data(base) = base;
                let algorithm: MacAlgorithm = sec["algo"].as_str().unwrap_or_default().parse()?;
                match sec["sig"] == MacKey::new(SECRET).sign(algorithm, &base) {
                    true => asi.reply(info()),
                    false => Err(refuse().into()),
                }
            });
        });
        let secret = Template::build(|asi| {
            // base64 of the secret, without padding
            asi.add(|asi, ()| asi.reply("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"));
        });
        let executor = executor_of(&stateless(), None, |functions| {
            functions.add("checkClear", &clear).add("checkMAC", &mac).add("getMACSecret", &secret);
        });
        let (takes, is_gone) = (Duration::ZERO, Arc::default());
        Self { executor, asked: Arc::default(), takes, is_gone }
    }

    /// The functions that were called since the last time.
    fn asked(&self) -> Vec<String> {
        let asked = std::mem::take(&mut *self.asked.lock().expect("it is right"));
        asked.iter().map(|call| call.function.func().to_owned()).collect()
    }
}

impl Invoker for Users {
    fn invoke(&self, call: Invocation) -> Invoking {
        let this = self.clone();
        this.asked.lock().expect("it is right").push(call.clone());
        Box::pin(async move {
            tokio::time::sleep(this.takes).await;
            if *this.is_gone.lock().expect("it is right") {
                return Err(Error::with_info(codes::CONNECT_ERROR, "it is unreachable"));
            }
            this.executor.invoke(call).await
        })
    }
}

fn executor_of(
    definition: &Value,
    security: Option<AuthService>,
    define: impl FnOnce(&mut Functions),
) -> Executor {
    let (iface, version) = (definition["iface"].as_str(), definition["version"].as_str());
    let id = format!("{}:{}", iface.expect("it is right"), version.expect("it is right"));
    let file =
        format!("{}-{}-iface.json", iface.expect("it is right"), version.expect("it is right"));
    let mut loader = Loader::new([Source::texts([(file, definition.to_string())])]);
    let definition = loader.load(&id.parse().expect("it is right")).expect("a definition");
    let builder = Executor::builder().interface(definition, define);
    match security {
        Some(security) => builder.security(security),
        None => builder.security(StaticUsers::new()),
    }
    .build()
    .expect("a right configuration")
}

/// An executor whose function says who calls.
fn shop(users: AuthService) -> Executor {
    let who = Template::build(|asi| {
        asi.add(|asi, ()| {
            let info = asi.request()?;
            let user =
                info.user().map(|user| [user.local_id(), user.global_id(), user.level().name()]);
            let who = user.map(|user| user.join(" "));
            asi.reply(who.unwrap_or_default())
        });
    });
    let definition = json!({ "iface": "test.shop", "version": "1.0", "ftn3rev": "1.9",
        "funcs": { "who": { "result": "string" } } });
    executor_of(&definition, Some(users), |functions| {
        functions.add("who", &who);
    })
}

async fn who(shop: &Executor, sec: impl Into<Value>) -> String {
    who_at(shop, "192.0.2.7:1000", sec).await
}

async fn who_at(shop: &Executor, client: &str, sec: impl Into<Value>) -> String {
    let message = json!({ "f": "test.shop:1.0:who", "sec": sec.into() });
    let request = Request::parse(message.to_string().as_bytes()).expect("it is right");
    let peer: SocketAddr = client.parse().expect("it is right");
    let channel = Channel::new(ChannelKind::Http).with_peer(peer);
    let reply = shop.dispatch(Incoming::new(request, channel)).await;
    String::from_utf8(reply.into_bytes().expect("a message")).expect("it is right")
}

fn password() -> String {
    format!("{ANN}:open sesame")
}

/// The signature of the request of `who`, with the hash of HMAC that `name` says.
fn signature(name: &str) -> String {
    let mac = MacKey::new(SECRET).sign(name.parse().expect("it is right"), b"f:test.shop:1.0:who;");
    format!("-smac:{ANN}:{name}:{mac}")
}

const IS_REFUSED: &str = r#"{"e":"SecurityError","edesc":"Basic Auth Verification Failed"}"#;
const ANN_BY_PASSWORD: &str = r#"{"r":"AAAAAAAAAAAAAAAAAAAAAA ann@example.com SafeOps"}"#;

#[actix::test]
async fn a_password_is_asked_for_once_a_minute() {
    tokio::time::pause();
    let users = Users::new();
    let shop = shop(AuthService::new(users.clone()));
    assert_eq!(who(&shop, password()).await, ANN_BY_PASSWORD);
    assert_eq!(users.asked(), ["checkClear"]);
    tokio::time::advance(Duration::from_secs(59)).await;
    assert_eq!(who(&shop, password()).await, ANN_BY_PASSWORD);
    assert_eq!(users.asked(), [""; 0], "it is remembered");
    assert_eq!(who(&shop, format!("{ANN}:open sesamf")).await, IS_REFUSED);
    assert_eq!(users.asked(), ["checkClear"], "another password is not the remembered one");
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(who(&shop, password()).await, ANN_BY_PASSWORD);
    assert_eq!(users.asked(), ["checkClear"], "it is remembered for a minute");
}

#[actix::test]
async fn a_signature_is_asked_for_once_and_answers_are_signed_with_the_secret() {
    let users = Users::new();
    let shop = shop(AuthService::new(users.clone()));
    let answer = r#"r:AAAAAAAAAAAAAAAAAAAAAA ann@example.com PrivilegedOps;"#;
    for (name, algorithm, asked) in [
        ("HS256", MacAlgorithm::Sha256, &["checkMAC", "getMACSecret"][..]),
        ("HS512", MacAlgorithm::Sha512, &[]),
        ("MD5", MacAlgorithm::Md5, &[]),
    ] {
        let answered: Value =
            serde_json::from_str(&who(&shop, signature(name)).await).expect("it is right");
        let expected = MacKey::new(SECRET).sign(algorithm, answer.as_bytes());
        assert_eq!(answered["sec"], expected, "{answered}");
        assert_eq!(users.asked(), asked, "{name}");
    }
    let wrong = signature("HS256").replace("HS256:", "HS256:AAAA");
    assert_eq!(who(&shop, wrong).await, IS_REFUSED);
    assert_eq!(users.asked(), ["checkMAC"], "the AuthService counts what is wrong");
    for unknown in ["SHA224", "SHA3-256"] {
        assert_eq!(who(&shop, signature(unknown)).await, IS_REFUSED, "{unknown} is not of FTN8");
    }
    assert_eq!(users.asked(), [""; 0]);
}

#[actix::test]
async fn credentials_that_ftn8_does_not_know_are_not_asked_for() {
    let users = Users::new();
    let by_name = |name: &str| (name == "ann").then(|| ANN.to_owned());
    let names = shop(AuthService::new(users.clone()).names(by_name));
    let ids = shop(AuthService::new(users.clone()));
    for sec in [
        "ann:open sesame".to_owned(),
        format!("{ANN}:short"),
        format!("{ANN}:{}", "x".repeat(33)),
        format!("{}:open sesame", ANN.replace("AAA", "...")),
    ] {
        assert_eq!(who(&ids, &*sec).await, IS_REFUSED, "{sec}");
    }
    assert_eq!(users.asked(), [""; 0]);
    assert_eq!(who(&names, "ann:open sesame").await, ANN_BY_PASSWORD);
    assert_eq!(who(&names, "bob:open sesame").await, IS_REFUSED);
    assert_eq!(users.asked(), ["checkClear"]);
}

#[actix::test]
async fn the_auth_service_learns_the_client() {
    let users = Users::new();
    let shop = shop(AuthService::new(users.clone()));
    assert_eq!(who_at(&shop, "192.0.2.7:1", password()).await, ANN_BY_PASSWORD);
    assert_eq!(who_at(&shop, "[2001:db8::1]:1", format!("{ANN}:wrong password")).await, IS_REFUSED);
    let asked = users.asked.lock().expect("it is right");
    let sources: Vec<_> = asked.iter().map(|call| call.params["source"].to_string()).collect();
    assert_eq!(
        sources,
        [r#"{"source_ip":"192.0.2.7"}"#, r#"{"misc":{"source_ip":"2001:db8::1"}}"#]
    );
}

#[actix::test]
async fn without_an_answer_only_remembered_users_are_let_in() {
    let users = Users::new();
    let shop = shop(AuthService::new(users.clone()));
    assert_eq!(who(&shop, password()).await, ANN_BY_PASSWORD);
    *users.is_gone.lock().expect("it is right") = true;
    assert_eq!(who(&shop, password()).await, ANN_BY_PASSWORD);
    expect![[r#"{"e":"InternalError","edesc":"Authentication is not available"}"#]]
        .assert_eq(&who(&shop, signature("HS256")).await);
}

#[actix::test]
async fn a_forgotten_user_is_asked_for_again_also_by_a_check_in_flight() {
    tokio::time::pause();
    let users = Users { takes: Duration::from_secs(1), ..Users::new() };
    let provider = AuthService::new(users.clone());
    let shop = shop(provider.clone());
    let in_flight = actix_rt::spawn({
        let shop = shop.clone();
        async move { who(&shop, password()).await }
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    provider.forget(ANN);
    assert_eq!(in_flight.await.expect("it is right"), ANN_BY_PASSWORD, "it was asked before");
    assert_eq!(users.asked(), ["checkClear"]);
    assert_eq!(who(&shop, password()).await, ANN_BY_PASSWORD);
    assert_eq!(users.asked(), ["checkClear"], "the check in flight was not remembered");
    provider.forget(ANN);
    assert_eq!(who(&shop, password()).await, ANN_BY_PASSWORD);
    assert_eq!(users.asked(), ["checkClear"]);
}

#[actix::test]
async fn a_flood_of_wrong_passwords_does_not_reach_the_auth_service() {
    tokio::time::pause();
    let users = Users { takes: Duration::from_secs(1), ..Users::new() };
    let limits = Limits { concurrent: 2, queued: 3, ..Limits::default() };
    let nothing = MemoryOptions { time: Duration::ZERO, passwords: 1 };
    let shop = shop(AuthService::new(users.clone()).limits(limits).remember(nothing));
    let attack: Vec<_> = (0..20)
        .map(|number| {
            let shop = shop.clone();
            actix_rt::spawn(async move { who(&shop, format!("{ANN}:wrong {number:03}")).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(10)).await;
    // another client has a place in the queue all the same
    assert_eq!(who_at(&shop, "192.0.2.8:1", password()).await, ANN_BY_PASSWORD);
    let answers = futures_util::future::join_all(attack).await;
    let rejected = r#"{"e":"DefenseRejected","edesc":"Too many checks of credentials"}"#;
    let count =
        |text: &str| answers.iter().filter(|it| it.as_ref().expect("it is right") == text).count();
    assert_eq!((count(IS_REFUSED), count(rejected)), (4, 16));
    assert_eq!(users.asked().len(), 5);
}

/// Providers are shared by the arbiters of an executor.
const _: () = {
    const fn any_thread<T: SecurityProvider + Send + Sync>() {}
    any_thread::<AuthService>();
};
