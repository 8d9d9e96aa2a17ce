//! Keys that tokens are signed with (RFC 7517).

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use jsonwebtoken::jwk::{
    AlgorithmParameters, EllipticCurve, Jwk, JwkSet, KeyAlgorithm, KeyOperations, PublicKeyUse,
};
use jsonwebtoken::{Algorithm, DecodingKey};

/// The keys of an issuer of tokens by their ids (`kid`), each with the one algorithm that it is used with.
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
pub struct JwtKeys(HashMap<String, JwtKey>);

#[derive(Clone)]
pub(super) struct JwtKey {
    pub(super) algorithm: Algorithm,
    pub(super) key: DecodingKey,
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
    /// Two keys have this id.
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
    /// for encryption, and kinds of keys that are not known here are left out, as RFC 7517 §5 says.
    ///
    /// # Errors
    /// [`JwtKeysError`] if it is no JWK set, if no key is left, or if two have the same id.
    pub fn parse(jwk_set: &str) -> Result<Self, JwtKeysError> {
        let set: JwkSet = serde_json::from_str(jwk_set).map_err(JwtKeysError::Malformed)?;
        let (mut keys, mut unusable) = (Self::default(), Vec::new());
        for jwk in set.keys {
            match usable(&jwk) {
                Ok((kid, key)) => keys.add(kid, key)?,
                Err(why) => {
                    let kid = jwk.common.key_id.as_deref().unwrap_or("a key without `kid`");
                    tracing::debug!(kid, why, "a key of the JWK set is not used");
                    unusable.push(format!("{kid}: {why}"));
                }
            }
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
        let key = DecodingKey::from_secret(secret);
        self.add(kid.to_owned(), JwtKey { algorithm: Algorithm::HS256, key })?;
        Ok(self)
    }

    pub(super) fn get(&self, kid: &str) -> Option<&JwtKey> {
        self.0.get(kid)
    }

    fn add(&mut self, kid: String, key: JwtKey) -> Result<(), JwtKeysError> {
        match self.0.entry(kid) {
            Entry::Vacant(place) => drop(place.insert(key)),
            Entry::Occupied(other) => return Err(JwtKeysError::SameId(other.key().clone())),
        }
        Ok(())
    }
}

/// The id and the key, or why it is not used.
fn usable(jwk: &Jwk) -> Result<(String, JwtKey), &'static str> {
    let common = &jwk.common;
    if !matches!(common.public_key_use, None | Some(PublicKeyUse::Signature)) {
        return Err("its `use` is not `sig`");
    }
    if common.key_operations.as_ref().is_some_and(|all| !all.contains(&KeyOperations::Verify)) {
        return Err("its `key_ops` has no `verify`");
    }
    let kid = common.key_id.clone().ok_or("it has no id")?;
    let algorithm = algorithm(jwk).ok_or("it is not for an algorithm that is known here")?;
    let key = DecodingKey::from_jwk(jwk).map_err(|_| "its value is not base64url")?;
    if key.family() != algorithm.family() {
        return Err("its `alg` is for keys of another type");
    }
    // the bytes of a public key are no secret
    let secret = key.try_get_as_bytes().ok().filter(|_| is_secret(jwk));
    if secret.is_some_and(|secret| secret.len() < least_secret(algorithm)) {
        return Err("the secret is shorter than the hash");
    }
    Ok((kid, JwtKey { algorithm, key }))
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
