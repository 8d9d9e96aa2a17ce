//! Credentials: the field `sec` (FTN8.1) or an `Authorization` header (FTN5 §2).

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Map, Value};

use super::mac::MacAlgorithm;
use crate::refusal::Refusal;

/// Longest name of a user and longest password, in bytes.
const MAX_LEN: usize = 1024;

/// FTN8.1 §2.2 allows padding to be left out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Credentials of a request, not yet checked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Credentials {
    /// Clear text, `user:password` (FTN8.1 §2.1).
    Password {
        /// The local user id.
        user: String,
        /// The password.
        password: Secret,
    },
    /// A message authentication code, `-smac:user:ALGO:base64` (FTN8.1 §2.2) or `-hmac:...`, its
    /// name before FTN8.
    Mac {
        /// The local user id.
        user: String,
        /// How the code was made.
        algorithm: MacAlgorithm,
        /// The code.
        mac: Vec<u8>,
    },
    /// `-internal`: a call of the process to itself.
    Internal,
}

impl Credentials {
    /// Reads the field `sec`, a text or a map.
    ///
    /// # Errors
    /// SecurityError for anything else.
    pub fn parse(sec: &Value) -> Result<Self, Refusal> {
        let parsed = match sec {
            Value::String(text) => Self::from_text(text),
            Value::Object(map) => Self::from_map(map),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
        };
        parsed.ok_or_else(Refusal::credentials)
    }

    /// Reads an `Authorization` header; `None` if its scheme is not `Basic`: a provider reads others
    /// itself.
    ///
    /// # Errors
    /// SecurityError unless it has the base64 of `user:password` in UTF-8.
    pub fn from_header(authorization: &str) -> Option<Result<Self, Refusal>> {
        let (scheme, encoded) = authorization.trim().split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("basic") {
            return None;
        }
        let text = BASE64.decode(encoded.trim()).ok().and_then(|text| String::from_utf8(text).ok());
        // a header has a password, even if it begins like a signature
        let parsed = text.and_then(|text| Self::password(&text));
        Some(parsed.ok_or_else(Refusal::credentials))
    }

    /// The local user id; `None` for `-internal`.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        match self {
            Self::Password { user, .. } | Self::Mac { user, .. } => Some(user),
            Self::Internal => None,
        }
    }

    /// Whether the message is signed, as `MessageSignature` wants it (FTN3 §2.4).
    #[must_use]
    pub fn is_signature(&self) -> bool {
        matches!(self, Self::Mac { .. })
    }

    fn from_text(text: &str) -> Option<Self> {
        let Some(special) = text.strip_prefix('-') else {
            return Self::password(text);
        };
        let mut parts = special.split(':');
        match (parts.next()?, parts.next(), parts.next(), parts.next(), parts.next()) {
            ("hmac" | "smac", Some(user), Some(algorithm), Some(mac), None) => {
                Self::mac(user, algorithm, mac)
            }
            ("internal", None, ..) => Some(Self::Internal),
            _ => None,
        }
    }

    fn from_map(map: &Map<String, Value>) -> Option<Self> {
        let field = |name: &str| map.get(name).and_then(Value::as_str);
        let user = field("user")?;
        match (field("secret"), field("algo"), field("sig"), map.len()) {
            (Some(secret), None, None, 2) => Self::pair(user, secret),
            (None, Some(algorithm), Some(mac), 3) => Self::mac(user, algorithm, mac),
            _ => None,
        }
    }

    fn password(text: &str) -> Option<Self> {
        let (user, password) = text.split_once(':')?;
        Self::pair(user, password)
    }

    fn pair(user: &str, password: &str) -> Option<Self> {
        let fits = is_user(user) && password.len() <= MAX_LEN;
        let password = Secret(password.to_owned());
        fits.then(|| Self::Password { user: user.to_owned(), password })
    }

    fn mac(user: &str, algorithm: &str, mac: &str) -> Option<Self> {
        let algorithm = algorithm.parse().ok()?;
        let mac = BASE64.decode(mac).ok()?;
        is_user(user).then(|| Self::Mac { user: user.to_owned(), algorithm, mac })
    }
}

fn is_user(user: &str) -> bool {
    !user.is_empty() && user.len() <= MAX_LEN
}

/// A text that is not shown in logs: its `Debug` hides it.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("Secret(..)")]
pub struct Secret(String);

impl Secret {
    /// Hides a text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    fn shown(credentials: Result<Credentials, Refusal>) -> String {
        match credentials {
            Ok(credentials) => format!("{credentials:?}\n"),
            Err(refusal) => format!("{}: {refusal}\n", refusal.code()),
        }
    }

    #[test]
    fn sec_is_a_text_or_a_map() {
        let out: String = [
            json!("user:pass"),
            json!("user:pa:ss"),
            json!("user:"),
            json!({"user": "u", "secret": "s"}),
            json!("-hmac:u:MD5:AQID"),
            json!("-smac:u:HS256:AQ=="),
            json!("-smac:u:HS512:AQ"),
            json!({"user": "u", "algo": "HS384", "sig": "AQ"}),
            json!("-internal"),
        ]
        .iter()
        .map(|sec| shown(Credentials::parse(sec)))
        .collect();
        expect![[r#"
            Password { user: "user", password: Secret(..) }
            Password { user: "user", password: Secret(..) }
            Password { user: "user", password: Secret(..) }
            Password { user: "u", password: Secret(..) }
            Mac { user: "u", algorithm: Md5, mac: [1, 2, 3] }
            Mac { user: "u", algorithm: Sha256, mac: [1] }
            Mac { user: "u", algorithm: Sha512, mac: [1] }
            Mac { user: "u", algorithm: Sha384, mac: [1] }
            Internal
        "#]]
        .assert_eq(&out);
    }

    #[test]
    fn what_is_no_credentials_is_denied() {
        let long = "x".repeat(MAX_LEN + 1);
        for sec in [
            json!(""),
            json!("user"),
            json!(":pass"),
            json!(format!("{long}:p")),
            json!(format!("u:{long}")),
            json!("-"),
            json!("-internal:x"),
            json!("-mmac:u:AQ:HKDF256:HS256:20200101:AQ=="),
            json!("-hmac:u:MD5"),
            json!("-hmac:u:MD5:AQ==:x"),
            json!("-hmac::MD5:AQ=="),
            json!("-hmac:u:SHA1:AQ=="),
            json!("-hmac:u:MD5:A*=="),
            json!({"user": "u"}),
            json!({"user": "u", "secret": 5}),
            json!({"user": "u", "secret": "s", "more": 1}),
            json!({"user": "u", "secret": "s", "algo": "HS256", "sig": "AQ"}),
            json!(5),
            json!(["user:pass"]),
            json!(null),
        ] {
            assert_eq!(Credentials::parse(&sec), Err(Refusal::credentials()), "{sec}");
        }
    }

    #[test]
    fn a_header_has_a_password() {
        let header = |text: &str| Credentials::from_header(text);
        let pair = |user: &str, password: &str| {
            let password = Secret::new(password);
            Some(Ok(Credentials::Password { user: user.to_owned(), password }))
        };
        assert_eq!(header("Basic dXNlcjpwYXNz"), pair("user", "pass"));
        assert_eq!(header("basic  dXNlcjpww6Rzcw=="), pair("user", "päss"));
        assert_eq!(
            header(&format!("Basic {}", BASE64.encode("-hmac:a:b:c"))),
            pair("-hmac", "a:b:c")
        );
        for text in ["Basic", "Bearer abc", "", "Digest username=\"x\""] {
            assert_eq!(header(text), None, "{text:?}");
        }
        for text in ["Basic *", "Basic dXNlcg==", "Basic /w==", "Basic OnBhc3M="] {
            assert_eq!(header(text), Some(Err(Refusal::credentials())), "{text:?}");
        }
    }
}
