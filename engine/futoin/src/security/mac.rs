//! Message authentication codes (FTN8 §2.11): HMAC (RFC 2104) over a message's signed fields.
//!
//! **Warning:** a signed message has no number and no time, so that it can be replayed, and in the
//! [signed text](crate::message::SignedFields::base) a value with `;` and `:` can look like several fields.
//! Both are properties of the protocol that no hash changes: use TLS.

use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac, SimpleHmac};
use md5::Md5;
use sha2::{Sha224, Sha256, Sha384, Sha512};
use sha3::{Sha3_224, Sha3_256, Sha3_384, Sha3_512};

use crate::refusal::Refusal;

/// The hash of an HMAC. FTN6 §1.3.3 names it `MD5`, `SHA224`, ..., `SHA3-512`, and FTN8 §2.11.2 `HMD5`,
/// `HS256`, `HS384` or `HS512`. KMAC128 and KMAC256 are not known: FTN8 leaves open how long they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MacAlgorithm {
    /// MD5, for old clients: its collisions do not break an HMAC.
    Md5,
    /// SHA-224.
    Sha224,
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
    /// SHA3-224.
    Sha3_224,
    /// SHA3-256.
    Sha3_256,
    /// SHA3-384.
    Sha3_384,
    /// SHA3-512.
    Sha3_512,
}

impl MacAlgorithm {
    /// The name of FTN6 §1.3.3, which executors of before FTN8 know too.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Md5 => "MD5",
            Self::Sha224 => "SHA224",
            Self::Sha256 => "SHA256",
            Self::Sha384 => "SHA384",
            Self::Sha512 => "SHA512",
            Self::Sha3_224 => "SHA3-224",
            Self::Sha3_256 => "SHA3-256",
            Self::Sha3_384 => "SHA3-384",
            Self::Sha3_512 => "SHA3-512",
        }
    }

    /// The name of FTN8 §2.11.2; `None` if it has none.
    #[must_use]
    pub fn ftn8_name(self) -> Option<&'static str> {
        match self {
            Self::Md5 => Some("HMD5"),
            Self::Sha256 => Some("HS256"),
            Self::Sha384 => Some("HS384"),
            Self::Sha512 => Some("HS512"),
            Self::Sha224 | Self::Sha3_224 | Self::Sha3_256 | Self::Sha3_384 | Self::Sha3_512 => {
                None
            }
        }
    }
}

impl FromStr for MacAlgorithm {
    type Err = Refusal;

    fn from_str(name: &str) -> Result<Self, Refusal> {
        Ok(match name {
            "MD5" | "HMD5" => Self::Md5,
            "SHA224" => Self::Sha224,
            "SHA256" | "HS256" => Self::Sha256,
            "SHA384" | "HS384" => Self::Sha384,
            "SHA512" | "HS512" => Self::Sha512,
            "SHA3-224" => Self::Sha3_224,
            "SHA3-256" => Self::Sha3_256,
            "SHA3-384" => Self::Sha3_384,
            "SHA3-512" => Self::Sha3_512,
            _ => return Err(Refusal::credentials()),
        })
    }
}

/// A key that two peers share, in no `Debug` output.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("MacKey(..)")]
pub struct MacKey(Box<[u8]>);

impl MacKey {
    /// A key of raw bytes. Clients are often configured with its base64.
    #[must_use]
    pub fn new(raw: &[u8]) -> Self {
        Self(raw.into())
    }

    /// The MAC of `base`, the bytes of [`SignedFields::base`](crate::message::SignedFields::base), as base64:
    /// the field `sec` of an answer.
    #[must_use]
    pub fn sign(&self, algorithm: MacAlgorithm, base: &[u8]) -> String {
        match algorithm {
            MacAlgorithm::Md5 => self.code::<Hmac<Md5>>(base),
            MacAlgorithm::Sha224 => self.code::<Hmac<Sha224>>(base),
            MacAlgorithm::Sha256 => self.code::<Hmac<Sha256>>(base),
            MacAlgorithm::Sha384 => self.code::<Hmac<Sha384>>(base),
            MacAlgorithm::Sha512 => self.code::<Hmac<Sha512>>(base),
            MacAlgorithm::Sha3_224 => self.code::<SimpleHmac<Sha3_224>>(base),
            MacAlgorithm::Sha3_256 => self.code::<SimpleHmac<Sha3_256>>(base),
            MacAlgorithm::Sha3_384 => self.code::<SimpleHmac<Sha3_384>>(base),
            MacAlgorithm::Sha3_512 => self.code::<SimpleHmac<Sha3_512>>(base),
        }
    }

    /// Whether `mac` is the whole MAC of `base`. It takes the same time wherever they differ.
    #[must_use]
    pub fn verify(&self, algorithm: MacAlgorithm, base: &[u8], mac: &[u8]) -> bool {
        match algorithm {
            MacAlgorithm::Md5 => self.is_code::<Hmac<Md5>>(base, mac),
            MacAlgorithm::Sha224 => self.is_code::<Hmac<Sha224>>(base, mac),
            MacAlgorithm::Sha256 => self.is_code::<Hmac<Sha256>>(base, mac),
            MacAlgorithm::Sha384 => self.is_code::<Hmac<Sha384>>(base, mac),
            MacAlgorithm::Sha512 => self.is_code::<Hmac<Sha512>>(base, mac),
            MacAlgorithm::Sha3_224 => self.is_code::<SimpleHmac<Sha3_224>>(base, mac),
            MacAlgorithm::Sha3_256 => self.is_code::<SimpleHmac<Sha3_256>>(base, mac),
            MacAlgorithm::Sha3_384 => self.is_code::<SimpleHmac<Sha3_384>>(base, mac),
            MacAlgorithm::Sha3_512 => self.is_code::<SimpleHmac<Sha3_512>>(base, mac),
        }
    }

    fn code<M: Mac + KeyInit>(&self, base: &[u8]) -> String {
        self.begin::<M>(base)
            .map(|mac| STANDARD.encode(mac.finalize().into_bytes()))
            .unwrap_or_default()
    }

    fn is_code<M: Mac + KeyInit>(&self, base: &[u8], mac: &[u8]) -> bool {
        self.begin::<M>(base).is_some_and(|ours| ours.verify_slice(mac).is_ok())
    }

    /// An HMAC takes a key of any length, so this is never `None`.
    fn begin<M: Mac + KeyInit>(&self, base: &[u8]) -> Option<M> {
        let mut mac = <M as KeyInit>::new_from_slice(&self.0).ok()?;
        mac.update(base);
        Some(mac)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [(&str, MacAlgorithm); 13] = [
        ("MD5", MacAlgorithm::Md5),
        ("HMD5", MacAlgorithm::Md5),
        ("SHA224", MacAlgorithm::Sha224),
        ("SHA256", MacAlgorithm::Sha256),
        ("HS256", MacAlgorithm::Sha256),
        ("SHA384", MacAlgorithm::Sha384),
        ("HS384", MacAlgorithm::Sha384),
        ("SHA512", MacAlgorithm::Sha512),
        ("HS512", MacAlgorithm::Sha512),
        ("SHA3-224", MacAlgorithm::Sha3_224),
        ("SHA3-256", MacAlgorithm::Sha3_256),
        ("SHA3-384", MacAlgorithm::Sha3_384),
        ("SHA3-512", MacAlgorithm::Sha3_512),
    ];

    #[test]
    fn codes_are_those_of_other_implementations() {
        // echo -n BASE | openssl dgst -ALGO -hmac MyLongTestSecretKey -binary | base64 -w0
        let base = b"f:conform.signed:1.0:sum;p:a:1;b:2;;";
        let key = MacKey::new(b"MyLongTestSecretKey");
        for (algorithm, expected) in [
            (MacAlgorithm::Md5, "OQ+kT3xPtDnyF0ZDymaA4w=="),
            (MacAlgorithm::Sha224, "yTDU9MjEm6xeIaU0FCmOWfo3p1uVzSYAemdC3A=="),
            (MacAlgorithm::Sha256, "KhjBlv2YZrA4u6gs6VuNymCLgphfk8USAPZzA4LWiYw="),
            (
                MacAlgorithm::Sha384,
                "fyRrqpCdeb/G+ur0WigDSPxp9OkEnhu0YokDUZUGHyXcDuEtuLBXE9f60pNnU98f",
            ),
            (
                MacAlgorithm::Sha512,
                "NSbkAho8d45Y4qKvGXMNnZeHoAplaowwxj/lGqe12QlvxuNgGY/6uBh5WxlwvC7XUl48V8YcL1LV+3W4LEFUtg==",
            ),
            (MacAlgorithm::Sha3_224, "MZ+EP82H/3+EQ8HZD4RQmVonUNPC8igqB7Yj5w=="),
            (MacAlgorithm::Sha3_256, "eUb9gIHMN0ntLyS/oEu6Jz4v4Bdvf925Et7qmYzc/AQ="),
            (
                MacAlgorithm::Sha3_384,
                "JnWXB4BhlO6PXdoOFjEgwJ+zZVpVz7jMf9nh//98lm5fuHZN79gtd9krmiUFH7mP",
            ),
            (
                MacAlgorithm::Sha3_512,
                "ESd3MJMDeuJNv6mbsWCbuhMEydVaJpeC1wvBdg4DFUi3W5P6UWLbatrlFaRV0NKuNhQikvKNsxJbU0i3E1Xdrg==",
            ),
        ] {
            assert_eq!(key.sign(algorithm, base), expected);
        }
    }

    #[test]
    fn a_code_fits_its_message_key_and_algorithm_only() {
        let key = MacKey::new(b"key");
        for (name, algorithm) in NAMES {
            assert_eq!(name.parse(), Ok(algorithm));
            assert_eq!(algorithm.name().parse(), Ok(algorithm));
            assert!(algorithm.ftn8_name().is_none_or(|name| name.parse() == Ok(algorithm)));
            let mac = STANDARD.decode(key.sign(algorithm, b"base")).unwrap();
            assert!(key.verify(algorithm, b"base", &mac));
            assert!(!key.verify(algorithm, b"bass", &mac));
            assert!(!MacKey::new(b"kez").verify(algorithm, b"base", &mac));
            for at in 0..mac.len() {
                let mut wrong = mac.clone();
                wrong[at] ^= 1;
                assert!(!key.verify(algorithm, b"base", &wrong));
                assert!(!key.verify(algorithm, b"base", &mac[..at]), "a part is not enough");
            }
        }
        assert_eq!("SHA1".parse::<MacAlgorithm>(), Err(Refusal::credentials()));
        assert_eq!(format!("{key:?}"), "MacKey(..)");
    }
}
