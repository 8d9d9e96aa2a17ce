//! The promise: the key sets of issuers are read as they publish them.

use jsonwebtoken::Algorithm;
use serde_json::json;

use super::jwt::{REFUSED, Signer, WHOAMI, claims, executor, keys, provider, with_token};

const ANN: &str = r#"{"r":"ann SafeOps"}"#;

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
