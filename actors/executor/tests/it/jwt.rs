//! The promise: a bearer token that is a JSON Web Token identifies its caller, and every other one is refused
//! with the code that tells the caller what to do (FTN3 §1.9.1, §1.12).

use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use asyncsteps::executor::Incoming;
use asyncsteps::message::{Headers, Request};
use asyncsteps::security::{JwtKeys, JwtKeysError, JwtProvider, SecurityLevel, User};
use asyncsteps::typed::Interface;
use asyncsteps::{BodyResult, Cx, Executor};
use asyncsteps_executor::channel::{Channel, ChannelKind};
use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
};
use expect_test::expect;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use proptest::prelude::*;
use serde_json::{Value, json};

pub(super) const SECRET: &[u8; 32] = b"a secret of thirty-two bytes ...";

/// A key of an issuer: it signs, and can be published.
pub(super) struct Signer {
    pub(super) kid: &'static str,
    pub(super) algorithm: Algorithm,
    pub(super) key: EncodingKey,
}

impl Signer {
    pub(super) fn rsa(kid: &'static str, algorithm: Algorithm) -> Self {
        let pair = KeyPair::generate(KeySize::Rsa2048).expect("a key");
        let der: aws_lc_rs::encoding::Pkcs8V1Der<'_> = pair.as_der().expect("it is written");
        // PKCS #8, of which 26 bytes are around PKCS #1 for a key of this size
        Self { kid, algorithm, key: EncodingKey::from_rsa_der(&der.as_ref()[26..]) }
    }

    pub(super) fn ec(kid: &'static str, algorithm: Algorithm) -> Self {
        let kind = if algorithm == Algorithm::ES256 {
            &ECDSA_P256_SHA256_FIXED_SIGNING
        } else {
            &ECDSA_P384_SHA384_FIXED_SIGNING
        };
        let random = aws_lc_rs::rand::SystemRandom::new();
        let der = EcdsaKeyPair::generate_pkcs8(kind, &random).expect("a key");
        Self { kid, algorithm, key: EncodingKey::from_ec_der(der.as_ref()) }
    }

    pub(super) fn ed(kid: &'static str) -> Self {
        let random = aws_lc_rs::rand::SystemRandom::new();
        let der = Ed25519KeyPair::generate_pkcs8v1(&random).expect("a key");
        Self { kid, algorithm: Algorithm::EdDSA, key: EncodingKey::from_ed_der(der.as_ref()) }
    }

    pub(super) fn secret(kid: &'static str) -> Self {
        Self { kid, algorithm: Algorithm::HS256, key: EncodingKey::from_secret(SECRET) }
    }

    /// The public part, or the secret.
    pub(super) fn jwk(&self) -> Value {
        let mut jwk = serde_json::to_value(
            Jwk::from_encoding_key(&self.key, self.algorithm).expect("it is right"),
        )
        .expect("it is right");
        jwk["kid"] = self.kid.into();
        jwk
    }

    pub(super) fn token(&self, claims: &Value) -> String {
        let mut header = Header::new(self.algorithm);
        header.kid = Some(self.kid.to_owned());
        encode(&header, claims, &self.key).expect("it is right")
    }
}

pub(super) fn keys(jwks: &[Value]) -> JwtKeys {
    JwtKeys::parse(&json!({ "keys": jwks }).to_string()).expect("it is right")
}

#[expect(clippy::disallowed_methods, reason = "tokens have the time of day")]
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is right");
    since.as_secs().try_into().expect("it is right")
}

/// The claims of a right token, changed.
pub(super) fn claims(change: &Value) -> Value {
    let mut claims = json!({ "iss": "https://id.test/", "aud": "shop", "sub": "ann",
        "iat": now(), "exp": now() + 600, "roles": ["clerk"] });
    for (name, value) in change.as_object().expect("it is right") {
        claims[name] = value.clone();
    }
    claims
}

pub(super) fn provider(keys: JwtKeys) -> JwtProvider {
    JwtProvider::new("https://id.test/", "shop", keys)
        .role("clerk", SecurityLevel::SafeOps)
        .role("manager", SecurityLevel::PrivilegedOps)
}

async fn whoami(cx: &Cx<(), ()>) -> BodyResult<String> {
    let user = cx.request().user().map(|user| format!("{} {}", user.local_id(), user.level()));
    Ok(user.unwrap_or_else(|| "anonymous".to_owned()))
}

pub(super) fn executor(users: &JwtProvider) -> Executor {
    let mut interface = Interface::new("acme.shop:1.0".parse().expect("it is right"));
    interface.allow_anonymous().function::<(), String>("whoami");
    interface.function::<(), String>("sell").seclvl(SecurityLevel::SafeOps);
    interface.function::<(), String>("price").seclvl(SecurityLevel::PrivilegedOps);
    let private = Interface::new("acme.office:1.0".parse().expect("it is right"));
    Executor::builder()
        .security(users.clone())
        .service(interface, (), |functions| {
            functions.on("whoami", whoami).on("sell", whoami).on("price", whoami);
        })
        .service(private, (), |functions| {
            functions.on("whoami", whoami);
        })
        .build()
        .expect("it is right")
}

/// The headers of a request, as a transport has them.
struct Authorization(String);

impl Headers for Authorization {
    fn header(&self, name: &str) -> Option<&str> {
        (name == "authorization").then_some(&*self.0)
    }

    fn headers(&self) -> Box<dyn Iterator<Item = (&str, &str)> + '_> {
        Box::new([("authorization", &*self.0)].into_iter())
    }
}

/// What a request with this header gets.
pub(super) async fn answer(
    executor: &Executor,
    function: &str,
    authorization: Option<String>,
) -> String {
    let request =
        Request::parse(json!({ "f": function }).to_string().as_bytes()).expect("it is right");
    let mut incoming = Incoming::new(request, Channel::new(ChannelKind::Http));
    if let Some(authorization) = authorization {
        incoming = incoming.with_headers(Rc::new(Authorization(authorization)));
    }
    let reply = executor.dispatch(incoming).await;
    String::from_utf8(reply.into_bytes().expect("it is right")).expect("it is right")
}

pub(super) async fn with_token(executor: &Executor, function: &str, token: &str) -> String {
    answer(executor, function, Some(format!("Bearer {token}"))).await
}

pub(super) const REFUSED: &str = r#"{"e":"SecurityError","edesc":"Token is not valid"}"#;
const EXPIRED: &str = r#"{"e":"PleaseReauth","edesc":"Info (the token has expired)"}"#;
pub(super) const WHOAMI: &str = "acme.shop:1.0:whoami";

#[actix_rt::test]
async fn each_algorithm_identifies_its_caller() {
    let signers = [
        Signer::secret("hs"),
        Signer::rsa("rs256", Algorithm::RS256),
        Signer::rsa("ps512", Algorithm::PS512),
        Signer::ec("es256", Algorithm::ES256),
        Signer::ec("es384", Algorithm::ES384),
        Signer::ed("ed"),
    ];
    let jwks: Vec<_> = signers.iter().map(Signer::jwk).collect();
    let executor = executor(&provider(keys(&jwks)));
    for signer in &signers {
        let token = signer.token(&claims(&json!({ "aud": ["bank", "shop"] })));
        let got = with_token(&executor, WHOAMI, &token).await;
        assert_eq!(got, r#"{"r":"ann SafeOps"}"#, "{}", signer.kid);
        // each bit of the signature counts
        let (message, signature) = token.rsplit_once('.').unwrap();
        let first = if signature.starts_with('A') { 'B' } else { 'A' };
        let forged = format!("{message}.{first}{}", &signature[1..]);
        assert_eq!(with_token(&executor, WHOAMI, &forged).await, REFUSED, "{}", signer.kid);
        let cut = &token[..token.len() - 4];
        assert_eq!(with_token(&executor, WHOAMI, cut).await, REFUSED, "{}", signer.kid);
    }
}

#[actix_rt::test]
async fn claims_say_who_when_and_for_whom() {
    let signer = Signer::secret("a");
    let executor = executor(&provider(keys(&[signer.jwk()])));
    let ann = r#"{"r":"ann SafeOps"}"#;
    for (change, expected) in [
        (json!({}), ann),
        (json!({ "aud": "bank" }), REFUSED),
        (json!({ "aud": ["bank"] }), REFUSED),
        (json!({ "aud": null }), REFUSED),
        (json!({ "aud": 7 }), REFUSED),
        (json!({ "iss": "https://id.other/" }), REFUSED),
        (json!({ "iss": null }), REFUSED),
        (json!({ "exp": now() - 30 }), ann),
        (json!({ "exp": now() - 120 }), EXPIRED),
        (json!({ "exp": 0 }), EXPIRED),
        (json!({ "exp": null }), REFUSED),
        (json!({ "exp": "never" }), REFUSED),
        (json!({ "exp": -1 }), REFUSED),
        (json!({ "nbf": now() + 30 }), ann),
        (json!({ "nbf": now() + 120 }), REFUSED),
        (json!({ "nbf": "soon" }), REFUSED),
        (json!({ "sub": null }), REFUSED),
        (json!({ "sub": "" }), REFUSED),
        (json!({ "sub": 5 }), REFUSED),
        (json!({ "sub": "x".repeat(1025) }), REFUSED),
    ] {
        let got = with_token(&executor, WHOAMI, &signer.token(&claims(&change))).await;
        assert_eq!(got, expected, "{change}");
    }
    let long = signer.token(&claims(&json!({ "groups": "x".repeat(8 << 10) })));
    assert_eq!(with_token(&executor, WHOAMI, &long).await, REFUSED, "over 8 KiB");
}

#[actix_rt::test]
async fn a_key_is_used_with_its_algorithm_only() {
    let (rsa, other) = (Signer::rsa("rsa", Algorithm::RS256), Signer::secret("hs"));
    let executor = executor(&provider(keys(&[rsa.jwk(), other.jwk()])));
    let right = rsa.token(&claims(&json!({})));
    assert_eq!(with_token(&executor, WHOAMI, &right).await, r#"{"r":"ann SafeOps"}"#);

    let signed = |kid: Option<&str>, algorithm: Algorithm, key: &EncodingKey| {
        let mut header = Header::new(algorithm);
        header.kid = kid.map(str::to_owned);
        encode(&header, &claims(&json!({})), key).unwrap()
    };
    // the public key as a secret, in each form that a careless check would take
    let jwk = rsa.jwk();
    let modulus = jwk["n"].as_str().unwrap().as_bytes();
    for public in [modulus, jwk.to_string().as_bytes()] {
        let swapped = signed(Some("rsa"), Algorithm::HS256, &EncodingKey::from_secret(public));
        assert_eq!(with_token(&executor, WHOAMI, &swapped).await, REFUSED, "HS with an RSA key");
    }
    for (kid, algorithm, key) in [
        (Some("rsa"), Algorithm::RS512, &rsa.key),
        (Some("rsa"), Algorithm::PS256, &rsa.key),
        (Some("hs"), Algorithm::HS512, &other.key),
        // right signatures under the id of another key, of no key, and without an id
        (Some("hs"), Algorithm::RS256, &rsa.key),
        (Some("rsa"), Algorithm::HS256, &other.key),
        (Some("who"), Algorithm::RS256, &rsa.key),
        (None, Algorithm::RS256, &rsa.key),
    ] {
        let got = with_token(&executor, WHOAMI, &signed(kid, algorithm, key)).await;
        assert_eq!(got, REFUSED, "{kid:?} {algorithm:?}");
    }
    let part = |json: &Value| {
        use base64::Engine;
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(json.to_string())
    };
    let body = part(&claims(&json!({})));
    for algorithm in ["none", "None", "NONE", "", "HS1"] {
        for kid in ["rsa", "hs"] {
            let header = part(&json!({ "alg": algorithm, "kid": kid }));
            for token in [format!("{header}.{body}."), format!("{header}.{body}")] {
                assert_eq!(with_token(&executor, WHOAMI, &token).await, REFUSED, "{algorithm}");
            }
        }
    }
    let mut critical = Header::new(Algorithm::HS256);
    critical.kid = Some("hs".to_owned());
    critical.crit = Some(vec!["b64".to_owned()]);
    let token = encode(&critical, &claims(&json!({})), &other.key).unwrap();
    assert_eq!(with_token(&executor, WHOAMI, &token).await, REFUSED, "an unknown extension");
}

#[actix_rt::test]
async fn keys_are_replaced_while_requests_come() {
    let (old, new) = (Signer::ec("1", Algorithm::ES256), Signer::ec("2", Algorithm::ES256));
    let users = provider(keys(&[old.jwk()]));
    let executor = executor(&users);
    let token = |signer: &Signer| signer.token(&claims(&json!({})));
    let (by_old, by_new) = (token(&old), token(&new));
    let mut seen = String::new();
    for jwks in [vec![old.jwk()], vec![old.jwk(), new.jwk()], vec![new.jwk()]] {
        users.set_keys(keys(&jwks));
        for token in [&by_old, &by_new] {
            seen += &with_token(&executor, WHOAMI, token).await;
            seen.push('\n');
        }
    }
    expect![[r#"
        {"r":"ann SafeOps"}
        {"e":"SecurityError","edesc":"Token is not valid"}
        {"r":"ann SafeOps"}
        {"r":"ann SafeOps"}
        {"e":"SecurityError","edesc":"Token is not valid"}
        {"r":"ann SafeOps"}
    "#]]
    .assert_eq(&seen);
    // another key under an id that was there before
    let again = Signer::ec("2", Algorithm::ES256);
    users.set_keys(keys(&[again.jwk()]));
    assert_eq!(with_token(&executor, WHOAMI, &by_new).await, REFUSED);
}

#[actix_rt::test]
async fn roles_decide_which_functions_are_called() {
    let signer = Signer::secret("a");
    let users = provider(keys(&[signer.jwk()]));
    let mut seen = String::new();
    for (name, users) in [
        ("roles", users.clone()),
        ("scope", users.clone().roles_at("/scope")),
        ("realm", users.roles_at("/realm_access/roles")),
    ] {
        let executor = executor(&users);
        let change = json!({
            "roles": ["clerk", "gardener", 7], "scope": "openid manager clerk",
            "realm_access": { "roles": { "clerk": true } },
        });
        let token = signer.token(&claims(&change));
        for function in ["whoami", "sell", "price"] {
            let got = with_token(&executor, &format!("acme.shop:1.0:{function}"), &token).await;
            seen += &format!("{name}, {function}: {got}\n");
        }
    }
    expect![[r#"
        roles, whoami: {"r":"ann SafeOps"}
        roles, sell: {"r":"ann SafeOps"}
        roles, price: {"e":"Unauthorized","edesc":"PrivilegedOps"}
        scope, whoami: {"r":"ann PrivilegedOps"}
        scope, sell: {"r":"ann PrivilegedOps"}
        scope, price: {"r":"ann PrivilegedOps"}
        realm, whoami: {"r":"ann Info"}
        realm, sell: {"e":"Unauthorized","edesc":"SafeOps"}
        realm, price: {"e":"Unauthorized","edesc":"PrivilegedOps"}
    "#]]
    .assert_eq(&seen);
}

#[actix_rt::test]
async fn without_a_token_the_caller_is_anonymous() {
    let executor = executor(&provider(keys(&[Signer::secret("a").jwk()])));
    let mut seen = String::new();
    for header in [None, Some("Digest x"), Some("Bearer"), Some("bearer x.y.z"), Some("Bearer é")]
    {
        for function in [WHOAMI, "acme.shop:1.0:sell", "acme.office:1.0:whoami"] {
            let got = answer(&executor, function, header.map(str::to_owned)).await;
            seen += &format!("{}, {function}: {got}\n", header.unwrap_or("-"));
        }
    }
    expect![[r#"
        -, acme.shop:1.0:whoami: {"r":"anonymous"}
        -, acme.shop:1.0:sell: {"e":"PleaseReauth","edesc":"SafeOps"}
        -, acme.office:1.0:whoami: {"e":"SecurityError","edesc":"Anonymous not allowed"}
        Digest x, acme.shop:1.0:whoami: {"e":"SecurityError","edesc":"Authorization is not checked here but for: Bearer"}
        Digest x, acme.shop:1.0:sell: {"e":"SecurityError","edesc":"Authorization is not checked here but for: Bearer"}
        Digest x, acme.office:1.0:whoami: {"e":"SecurityError","edesc":"Authorization is not checked here but for: Bearer"}
        Bearer, acme.shop:1.0:whoami: {"e":"SecurityError","edesc":"Token is not valid"}
        Bearer, acme.shop:1.0:sell: {"e":"SecurityError","edesc":"Token is not valid"}
        Bearer, acme.office:1.0:whoami: {"e":"SecurityError","edesc":"Token is not valid"}
        bearer x.y.z, acme.shop:1.0:whoami: {"e":"SecurityError","edesc":"Token is not valid"}
        bearer x.y.z, acme.shop:1.0:sell: {"e":"SecurityError","edesc":"Token is not valid"}
        bearer x.y.z, acme.office:1.0:whoami: {"e":"SecurityError","edesc":"Token is not valid"}
        Bearer é, acme.shop:1.0:whoami: {"e":"SecurityError","edesc":"Token is not valid"}
        Bearer é, acme.shop:1.0:sell: {"e":"SecurityError","edesc":"Token is not valid"}
        Bearer é, acme.office:1.0:whoami: {"e":"SecurityError","edesc":"Token is not valid"}
    "#]]
    .assert_eq(&seen);
}

#[test]
fn a_user_has_the_claims_as_details() {
    let signer = Signer::secret("a");
    let users = provider(keys(&[signer.jwk()]));
    let token = signer.token(&claims(&json!({ "tenant": "acme" })));
    let ann = identified(&users, &token).expect("a right token");
    assert_eq!((ann.local_id(), ann.details()["tenant"].as_str()), ("ann", Some("acme")));
    assert!(ann.has_final_level());
    assert!(!format!("{users:?} {ann:?}").contains("acme"), "no claim is in a log");
}

/// The user of a token, without an executor.
fn identified(users: &JwtProvider, token: &str) -> Option<User> {
    use asyncsteps::security::{AuthOutcome, Client, RequestContext, SecurityProvider};
    let (client, headers) = (Client::default(), Authorization(format!("Bearer {token}")));
    let context = RequestContext::new(&client).with_headers(&headers as &dyn Headers);
    match users.identify(&context) {
        Some(AuthOutcome::Known(grant)) => grant.ok().map(|grant| grant.user().clone()),
        other => panic!("a bearer token is looked at, at once: {other:?}"),
    }
}

#[test]
fn a_jwk_set_has_at_least_one_key_that_can_be_used() {
    let error = |text: &str| JwtKeys::parse(text).unwrap_err();
    assert!(matches!(error("{"), JwtKeysError::Malformed(_)));
    assert!(matches!(error("[]"), JwtKeysError::Malformed(_)));
    let (right, short) =
        (Signer::secret("a").jwk(), json!({ "kty": "oct", "kid": "c", "k": "AQ" }));
    let encryption = {
        let mut key = Signer::rsa("b", Algorithm::RS256).jwk();
        key["use"] = "enc".into();
        key
    };
    let unusable = [
        encryption,
        short,
        json!({ "kty": "oct", "k": right["k"] }),
        json!({ "kty": "oct", "k": right["k"], "kid": "d", "alg": "HS512" }),
        json!({ "kty": "oct", "k": right["k"], "kid": "e", "alg": "RS256" }),
        json!({ "kty": "oct", "k": right["k"], "kid": "f", "key_ops": ["sign"] }),
        json!({ "kty": "oct", "k": "+/", "kid": "g" }),
        json!({ "kty": "EC", "crv": "P-521", "kid": "h", "x": "AQ", "y": "AQ" }),
        json!({ "kty": "EC", "crv": "P-256", "kid": "i", "alg": "ES384", "x": "AQ", "y": "AQ" }),
        json!({ "kty": "OKP", "crv": "X448", "kid": "j", "x": "AQ" }),
        json!({ "kty": "AKP", "kid": "k", "pub": "AQ" }),
        json!({ "kty": "RSA", "kid": "l" }),
        json!({ "kty": "RSA", "kid": "m", "n": 7, "x5c": "no list" }),
        json!({ "kid": 7 }),
        json!("no key"),
    ];
    expect![[r#"
        no key of the JWK set checks signatures: b: its `use` is not `sig`; c: the secret is shorter than the hash; a key without `kid`: it has no id; d: the secret is shorter than the hash; e: its `alg` is for keys of another type; f: its `key_ops` has no `verify`; g: its value is not base64url; h: it is not for an algorithm that is known here; i: it is not for an algorithm that is known here; j: it is not for an algorithm that is known here; k: it is not for an algorithm that is known here; l: it is not for an algorithm that is known here; m: it is no JWK; a key without `kid`: it is no JWK; a key without `kid`: it is no JWK
    "#]].assert_eq(&format!("{}\n", error(&json!({ "keys": unusable }).to_string())));
    let empty = error(r#"{"keys":[]}"#).to_string();
    assert_eq!(empty, "no key of the JWK set checks signatures: it is empty");
    // the rest of a set is used without them
    let all: Vec<_> = unusable.into_iter().chain([right]).collect();
    let keys = keys(&all);
    assert_eq!(format!("{keys:?}"), r#"JwtKeys([("a", HS256)])"#);
    assert!(matches!(keys.clone().with_secret("a", SECRET), Err(JwtKeysError::SameId(_))));
    assert!(matches!(keys.with_secret("z", &SECRET[1..]), Err(JwtKeysError::ShortSecret(_))));
}

proptest! {
    #[test]
    fn no_text_is_a_token(
        text in prop_oneof![any::<String>(), "[A-Za-z0-9_-]{0,40}\\.[A-Za-z0-9_-]{0,40}\\.[A-Za-z0-9_-]{0,40}"],
    ) {
        let users = provider(JwtKeys::default().with_secret("a", SECRET).unwrap());
        prop_assert!(identified(&users, &text).is_none());
    }

    #[test]
    fn a_token_with_another_byte_is_none(at in any::<prop::sample::Index>(), byte in "[ -~]") {
        let signer = Signer::secret("a");
        let users = provider(keys(&[signer.jwk()]));
        let token = signer.token(&claims(&json!({})));
        let at = at.index(token.len());
        let changed = format!("{}{byte}{}", &token[..at], &token[at + 1..]);
        prop_assert_eq!(identified(&users, &changed).is_some(), changed == token);
    }
}
