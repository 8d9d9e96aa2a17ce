//! The promise: the key sets of issuers are read as they publish them, their access tokens are accepted and their ID tokens
//! are not; keys are discovered (OpenID Connect Discovery 1.0), and a rotation refuses nobody's token.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use asyncsteps::Executor;
use asyncsteps::security::{JwtKeys, JwtProvider, SecurityLevel};
use futures_util::future::{join, join_all};
use jsonwebtoken::{Algorithm, Header, encode};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::jwt::{REFUSED, Signer, WHOAMI, claims, executor, keys, now, provider, with_token};

const ANN: &str = r#"{"r":"ann SafeOps"}"#;
const UNAVAILABLE: &str = r#"{"e":"InternalError","edesc":"Authentication is not available"}"#;

/// A token with this header and these claims.
fn signed(signer: &Signer, header: &Value, claims: &Value) -> String {
    let header: Header = serde_json::from_value(header.clone()).expect("a header");
    encode(&header, claims, &signer.key).expect("it is right")
}

#[actix_rt::test]
async fn issuers_are_understood_as_they_are() {
    let signer = Signer::rsa("any", Algorithm::RS256);
    let modulus = signer.jwk()["n"].as_str().expect("a modulus").to_owned();
    for text in [
        include_str!("issuers/auth0.json"),
        include_str!("issuers/cognito.json"),
        include_str!("issuers/entra.json"),
        include_str!("issuers/keycloak.json"),
        include_str!("issuers/okta.json"),
    ] {
        let issuer: Value = serde_json::from_str(&text.replace("$N", &modulus)).expect("JSON");
        let name = issuer["issuer"].as_str().expect("a name");
        let set = JwtKeys::parse(&json!({ "keys": issuer["keys"] }).to_string()).expect(name);
        let users = JwtProvider::new(name, "shop", set)
            .role("clerk", SecurityLevel::SafeOps)
            .roles_at(issuer["roles_at"].as_str().expect("a place"));
        let executor = executor(&users);
        let token = |kind: &str, header: &[(&str, &str)]| {
            let mut token = issuer[kind].clone();
            token["claims"]["iss"] = name.into();
            token["claims"]["iat"] = now().into();
            token["claims"]["exp"] = (now() + 600).into();
            for (name, value) in header {
                token["header"][name] = (*value).into();
            }
            signed(&signer, &token["header"], &token["claims"])
        };
        let seen = async |kind, header: &[(&str, &str)]| {
            with_token(&executor, WHOAMI, &token(kind, header)).await
        };
        assert_eq!(seen("access", &[]).await, ANN, "{name}");
        assert_eq!(seen("access", &[("typ", "at+jwt")]).await, ANN, "{name}");
        assert_eq!(seen("id", &[]).await, REFUSED, "{name}");
        assert_eq!(seen("access", &[("typ", "logout+jwt")]).await, REFUSED, "{name}");
    }
}

#[actix_rt::test]
async fn the_type_of_a_token_decides() {
    let signer = Signer::secret("a");
    let executor = executor(&provider(keys(&[signer.jwk()])));
    for (typ, change, expected) in [
        (Some("at+jwt"), json!({}), ANN),
        (Some("application/at+jwt"), json!({}), ANN),
        (Some("AT+JWT"), json!({ "nonce": "n" }), ANN),
        (Some("JWT"), json!({}), ANN),
        (None, json!({}), ANN),
        (Some(""), json!({}), REFUSED),
        (Some("id+jwt"), json!({}), REFUSED),
        (Some("dpop+jwt"), json!({}), REFUSED),
        (Some("application/application/at+jwt"), json!({}), REFUSED),
        (None, json!({ "nonce": "n" }), REFUSED),
        (None, json!({ "at_hash": "h" }), REFUSED),
        (None, json!({ "c_hash": null }), REFUSED),
        (None, json!({ "token_use": "access", "nonce": "n" }), ANN),
        (None, json!({ "token_use": "id" }), REFUSED),
        (None, json!({ "token_use": ["access"] }), REFUSED),
        (None, json!({ "token_use": "access", "typ": "ID" }), REFUSED),
        (None, json!({ "token_use": "access", "client_id": "shop", "aud": null }), REFUSED),
        (None, json!({ "typ": "Refresh" }), REFUSED),
    ] {
        let header = json!({ "alg": "HS256", "kid": "a", "typ": typ });
        let got = with_token(&executor, WHOAMI, &signed(&signer, &header, &claims(&change))).await;
        assert_eq!(got, expected, "{typ:?} {change}");
    }
    let mut without = claims(&json!({ "token_use": "access", "client_id": "bank" }));
    without.as_object_mut().expect("claims").remove("aud");
    for (client, expected) in [("shop", ANN), ("bank", REFUSED)] {
        without["client_id"] = client.into();
        assert_eq!(with_token(&executor, WHOAMI, &signer.token(&without)).await, expected);
    }
    without["token_use"] = "id".into();
    without["client_id"] = "shop".into();
    assert_eq!(with_token(&executor, WHOAMI, &signer.token(&without)).await, REFUSED);
}

#[actix_rt::test]
async fn one_id_has_a_key_for_each_algorithm() {
    let rsa = Signer::rsa("1", Algorithm::RS256);
    let longer = Signer::rsa("1", Algorithm::RS512);
    let ec = Signer::ec("1", Algorithm::ES256);
    let other = Signer::ec("1", Algorithm::ES256);
    let wrong = json!({ "kty": "RSA", "kid": "1", "alg": "RS384", "n": "+/", "e": "AQAB" });
    let keys = keys(&[wrong, json!(7), rsa.jwk(), longer.jwk(), ec.jwk(), ec.jwk(), other.jwk()]);
    let executor = executor(&provider(keys));
    for (signer, expected) in [(&rsa, ANN), (&longer, ANN), (&ec, ANN), (&other, REFUSED)] {
        let got = with_token(&executor, WHOAMI, &signer.token(&claims(&json!({})))).await;
        assert_eq!(got, expected, "{:?}", signer.algorithm);
    }
}

/// An issuer that is read over no network.
#[derive(Clone, Default)]
struct Issuer(Arc<Published>);

#[derive(Default)]
struct Published {
    documents: Mutex<HashMap<String, String>>,
    read: AtomicUsize,
}

const CONFIGURATION: &str = "https://id.test/.well-known/openid-configuration";
const KEYS: &str = "https://id.test/jwks";

impl Issuer {
    fn new(signers: &[&Signer]) -> Self {
        let this = Self::default();
        this.publish(signers);
        this.configure(&json!({ "issuer": "https://id.test/", "jwks_uri": KEYS }));
        this
    }

    fn configure(&self, configuration: &Value) {
        self.0.documents.lock().insert(CONFIGURATION.to_owned(), configuration.to_string());
    }

    fn publish(&self, signers: &[&Signer]) {
        let keys: Vec<_> = signers.iter().map(|signer| signer.jwk()).collect();
        self.0.documents.lock().insert(KEYS.to_owned(), json!({ "keys": keys }).to_string());
    }

    /// How often its keys were read.
    fn read(&self) -> usize {
        self.0.read.load(Ordering::Relaxed)
    }

    fn users(&self) -> JwtProvider {
        let this = Arc::clone(&self.0);
        let fetch = move |url: String| {
            let this = Arc::clone(&this);
            async move {
                // on the way; what is published then counts
                tokio::time::sleep(Duration::from_millis(50)).await;
                this.read.fetch_add(usize::from(url == KEYS), Ordering::Relaxed);
                this.documents.lock().get(&url).cloned().ok_or(io::ErrorKind::NotFound)
            }
        };
        let fetch = move |url| {
            let text = fetch(url);
            async { text.await.map_err(io::Error::from) }
        };
        JwtProvider::discover("https://id.test/", "shop", fetch)
            .role("clerk", SecurityLevel::SafeOps)
    }
}

async fn by(executor: &Executor, signer: &Signer) -> String {
    with_token(executor, WHOAMI, &signer.token(&claims(&json!({})))).await
}

#[actix_rt::test]
async fn a_rotation_refuses_no_token() {
    tokio::time::pause();
    let (old, new) = (Signer::ec("1", Algorithm::ES256), Signer::ec("2", Algorithm::ES256));
    let issuer = Issuer::new(&[&old]);
    let executor = executor(&issuer.users());
    // the first ones wait for the keys, together
    let first = join_all((0..50).map(|_| by(&executor, &old))).await;
    assert!(first.iter().all(|got| got == ANN), "{first:?}");
    assert_eq!(issuer.read(), 1);
    // a key that is new right afterwards: its tokens wait until the keys may be read again
    issuer.publish(&[&old, &new]);
    let both = join_all((0..50).map(|_| join(by(&executor, &old), by(&executor, &new)))).await;
    assert!(both.iter().all(|(old, new)| old == ANN && new == ANN), "{both:?}");
    assert_eq!(issuer.read(), 2);
    // one that is new while the keys are on their way, whose reading does not have it
    let third = Signer::ec("3", Algorithm::ES256);
    let unknown = Signer::ec("x", Algorithm::ES256);
    let publish = async {
        let before = issuer.read();
        while issuer.read() == before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        issuer.publish(&[&new, &third]);
        by(&executor, &third).await
    };
    let (unknown, third) = join(by(&executor, &unknown), publish).await;
    assert_eq!((&*unknown, &*third), (REFUSED, ANN));
    // the old one is withdrawn
    assert_eq!(by(&executor, &old).await, REFUSED);
}

#[actix_rt::test]
async fn invented_keys_and_callers_that_leave_are_no_flood() {
    tokio::time::pause();
    let (known, unknown) = (Signer::ec("1", Algorithm::ES256), Signer::ec("x", Algorithm::ES256));
    let issuer = Issuer::new(&[&known]);
    let executor = executor(&issuer.users());
    let begun = tokio::time::Instant::now();
    // the first reading goes on without its caller
    let gone = tokio::time::timeout(Duration::from_millis(10), by(&executor, &known)).await;
    gone.expect_err("it waits longer");
    for _ in 0..200 {
        assert_eq!(by(&executor, &unknown).await, REFUSED);
        assert_eq!(by(&executor, &known).await, ANN);
    }
    let most = begun.elapsed().as_secs() / 2 + 1;
    assert!(u64::try_from(issuer.read()).expect("few") <= most, "{} of {most}", issuer.read());
}

#[actix_rt::test]
async fn keys_are_read_again_in_time_and_kept_without_an_issuer() {
    tokio::time::pause();
    let (old, new) = (Signer::ec("1", Algorithm::ES256), Signer::ec("2", Algorithm::ES256));
    let issuer = Issuer::default();
    let executor = executor(&issuer.users());
    assert_eq!(by(&executor, &old).await, UNAVAILABLE);
    issuer.publish(&[&old]);
    for wrong in [
        json!({ "issuer": "https://id.other/", "jwks_uri": KEYS }),
        json!({ "issuer": "https://id.test/", "jwks_uri": KEYS.replace("https", "http") }),
        json!({ "issuer": "https://id.test/" }),
    ] {
        issuer.configure(&wrong);
        assert_eq!(by(&executor, &old).await, UNAVAILABLE, "{wrong}");
    }
    issuer.configure(&json!({ "issuer": "https://id.test/", "jwks_uri": KEYS }));
    assert_eq!(by(&executor, &old).await, ANN);
    // a withdrawn key is refused once ten minutes have passed, though no token asks for another one
    issuer.publish(&[&new]);
    tokio::time::advance(Duration::from_secs(590)).await;
    assert_eq!(by(&executor, &old).await, ANN);
    tokio::time::advance(Duration::from_secs(11)).await;
    assert_eq!(by(&executor, &old).await, ANN, "this one begins the reading");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(by(&executor, &old).await, REFUSED);
    // after a quiet hour it is read first
    issuer.publish(&[&old]);
    tokio::time::advance(Duration::from_secs(3_600)).await;
    assert_eq!(by(&executor, &new).await, REFUSED);
    // an issuer that is gone, or publishes nothing that can be used, changes nothing
    issuer.publish(&[]);
    for _ in 0..10 {
        tokio::time::advance(Duration::from_secs(700)).await;
        assert_eq!(by(&executor, &old).await, ANN);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(by(&executor, &new).await, UNAVAILABLE);
}
