//! Keys that tokens are signed with (RFC 7517).

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use jsonwebtoken::jwk::{
    AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse,
};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

/// The keys of an issuer of tokens, by id (`kid`) and algorithm: each is used with one algorithm.
///
/// ```
/// use asyncsteps_executor::security::JwtKeys;
///
/// // what the issuer publishes, often at `/.well-known/jwks.json`
/// let published = r#"{ "keys": [{
///     "kid": "2026-11", "kty": "EC", "crv": "P-256", "use": "sig",
///     "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
///     "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"
/// }] }"#;
/// let keys = JwtKeys::parse(published)?;
/// // or a secret that issuer and service share
/// let keys = keys.with_secret("ours", b"at least thirty-two bytes, random")?;
/// # let _ = keys;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default, derive_more::Debug)]
#[debug("JwtKeys({:?})", self.0.keys())]
pub struct JwtKeys(HashMap<KeyId, DecodingKey>);

/// `kid` and algorithm.
pub(super) type KeyId = (String, Algorithm);

/// RFC 7517 §5, with keys that are read one by one.
#[derive(Deserialize)]
struct JwkSet {
    keys: Vec<Value>,
}

/// Keys that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JwtKeysError {
    /// The text is not the JSON of a JWK set.
    #[error("not a JWK set")]
    Malformed(#[source] serde_json::Error),
    /// No key of the set can check a signature.
    #[error("no key of the JWK set checks signatures: {0}")]
    Unusable(String),
    /// Another key has this id and the algorithm of the secret.
    #[error("two keys have the id {0}")]
    SameId(String),
    /// The secret of this id is shorter than 32 bytes (RFC 7518 §3.2).
    #[error("the secret {0} has less than 32 bytes")]
    ShortSecret(String),
}

impl JwtKeys {
    /// Reads a JWK set (RFC 7517 §5), as issuers publish it.
    ///
    /// A key is used with its `alg`: HS256 to HS512, RS256 to RS512, PS256 to PS512, ES256, ES384 or EdDSA.
    /// Without `alg` it is used with RS256, HS256, or the one that its curve has. Keys without `kid`, keys
    /// for encryption, and kinds of keys that are not known here are left out, as RFC 7517 §5 says; so are, with a
    /// warning, keys that are not well formed, and of several with one id and algorithm all but the first.
    ///
    /// # Errors
    /// [`JwtKeysError`] if it is no JWK set, or if no key is left.
    pub fn parse(jwk_set: &str) -> Result<Self, JwtKeysError> {
        let set: JwkSet = serde_json::from_str(jwk_set).map_err(JwtKeysError::Malformed)?;
        let (mut keys, mut unusable) = (Self::default(), Vec::new());
        for jwk in set.keys {
            let kid = jwk.get("kid").and_then(Value::as_str).unwrap_or("a key without `kid`");
            let kid = kid.to_owned();
            let (why, is_wrong) = match usable(jwk).and_then(|(id, key)| keys.add(id, key)) {
                Ok(()) => continue,
                Err(Unused::Foreign(why)) => (why, false),
                Err(Unused::Wrong(why)) => (why, true),
            };
            match is_wrong {
                true => tracing::warn!(kid, why, "a key of the JWK set is wrong, and not used"),
                false => tracing::debug!(kid, why, "a key of the JWK set is not used"),
            }
            unusable.push(format!("{kid}: {why}"));
        }
        if keys.0.is_empty() {
            let why = if unusable.is_empty() { "it is empty".into() } else { unusable.join("; ") };
            return Err(JwtKeysError::Unusable(why));
        }
        Ok(keys)
    }

    /// Adds a secret that issuer and service share, for HS256.
    ///
    /// # Errors
    /// [`JwtKeysError`] if it has less than 32 bytes, or if another key has this id.
    pub fn with_secret(mut self, kid: &str, secret: &[u8]) -> Result<Self, JwtKeysError> {
        if secret.len() < least_secret(Algorithm::HS256) {
            return Err(JwtKeysError::ShortSecret(kid.to_owned()));
        }
        let id = (kid.to_owned(), Algorithm::HS256);
        let added = self.add(id, DecodingKey::from_secret(secret));
        added.map_err(|_| JwtKeysError::SameId(kid.to_owned()))?;
        Ok(self)
    }

    pub(super) fn get(&self, id: &KeyId) -> Option<&DecodingKey> {
        self.0.get(id)
    }

    fn add(&mut self, id: KeyId, key: DecodingKey) -> Result<(), Unused> {
        match self.0.entry(id) {
            Entry::Vacant(place) => drop(place.insert(key)),
            Entry::Occupied(_) => return Err(Unused::Wrong("another has its id and algorithm")),
        }
        Ok(())
    }
}

/// Why a key is not used.
enum Unused {
    /// It has another purpose, or is of a kind that is not known here.
    Foreign(&'static str),
    Wrong(&'static str),
}

/// The id and the key, or why it is not used.
fn usable(jwk: Value) -> Result<(KeyId, DecodingKey), Unused> {
    use Unused::{Foreign, Wrong};
    let jwk: Jwk = serde_json::from_value(jwk).map_err(|_| Wrong("it is no JWK"))?;
    let common = &jwk.common;
    if !matches!(common.public_key_use, None | Some(PublicKeyUse::Signature)) {
        return Err(Foreign("its `use` is not `sig`"));
    }
    if common.key_operations.as_ref().is_some_and(|all| !all.contains(&KeyOperations::Verify)) {
        return Err(Foreign("its `key_ops` has no `verify`"));
    }
    let kid = common.key_id.clone().ok_or(Foreign("it has no id"))?;
    let unknown = Foreign("it is not for an algorithm that is known here");
    let algorithm = algorithm(&jwk).ok_or(unknown)?;
    let key = DecodingKey::from_jwk(&jwk).map_err(|_| Wrong("its value is not base64url"))?;
    if key.family() != algorithm.family() {
        return Err(Wrong("its `alg` is for keys of another type"));
    }
    // the bytes of a public key are no secret
    let secret = key.try_get_as_bytes().ok().filter(|_| is_secret(&jwk));
    if secret.is_some_and(|secret| secret.len() < least_secret(algorithm)) {
        return Err(Wrong("the secret is shorter than the hash"));
    }
    Ok(((kid, algorithm), key))
}

fn is_secret(jwk: &Jwk) -> bool {
    matches!(jwk.algorithm, AlgorithmParameters::OctetKey(_))
}

#[expect(clippy::wildcard_enum_match_arm, reason = "other keys, known today or not, are not used")]
fn algorithm(jwk: &Jwk) -> Option<Algorithm> {
    let said = jwk.common.key_algorithm;
    // the curve of an elliptic key has one algorithm, whatever `alg` says
    let algorithm = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => said.unwrap_or(KeyAlgorithm::RS256),
        AlgorithmParameters::OctetKey(_) => said.unwrap_or(KeyAlgorithm::HS256),
        AlgorithmParameters::EllipticCurve(key) => match key.curve {
            EllipticCurve::P256 => KeyAlgorithm::ES256,
            EllipticCurve::P384 => KeyAlgorithm::ES384,
            _ => return None,
        },
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => {
            KeyAlgorithm::EdDSA
        }
        _ => return None,
    };
    let is_right = said.is_none_or(|said| said == algorithm);
    is_right.then(|| Algorithm::try_from(algorithm).ok()).flatten()
}

/// RFC 7518 §3.2: a secret has as many bytes as the hash.
fn least_secret(algorithm: Algorithm) -> usize {
    if algorithm == Algorithm::HS512 {
        64
    } else if algorithm == Algorithm::HS384 {
        48
    } else {
        32
    }
}
