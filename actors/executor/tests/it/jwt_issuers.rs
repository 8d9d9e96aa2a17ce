//! The promise: the key sets of issuers are read as they publish them, their access tokens are accepted and their ID tokens
//! are not.

use asyncsteps::security::{JwtKeys, JwtProvider, SecurityLevel};
use jsonwebtoken::{Algorithm, Header, encode};
use serde_json::{Value, json};

use super::jwt::{REFUSED, Signer, WHOAMI, claims, executor, keys, now, provider, with_token};

const ANN: &str = r#"{"r":"ann SafeOps"}"#;

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
