//! Names of flows, their owners and their records.

use std::fmt;
use std::str::FromStr;

use asyncsteps_core::sim::fill_seeded;
use minicbor::{Decode, Encode};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The name of a flow: 128 random bits, so that no two journals ever assign the same one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Debug, Encode, Decode)]
#[debug("{self}")]
#[cbor(transparent)]
pub struct Uid(
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    [u8; 16],
);

impl Uid {
    /// A new name; in a [simulation](asyncsteps_core::sim::seed_thread) of the seed of the thread.
    ///
    /// # Errors
    /// If the operating system has no random bytes.
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 16];
        if !fill_seeded(&mut bytes) {
            getrandom::fill(&mut bytes)?;
        }
        Ok(Self(bytes))
    }

    /// The name with these bytes, such as one that a simulation drew from its seed.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl Serialize for Uid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Uid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A text is no [`Uid`]: it needs 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a uid has 32 hexadecimal digits")]
pub struct ParseUidError;

impl FromStr for Uid {
    type Err = ParseUidError;

    fn from_str(text: &str) -> Result<Self, ParseUidError> {
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(ParseUidError);
        }
        let number = u128::from_str_radix(text, 16).map_err(|_| ParseUidError)?;
        Ok(Self(number.to_be_bytes()))
    }
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode,
        )]
        #[cbor(transparent)]
        pub struct $name(#[n(0)] u64);

        impl $name {
            /// The one with this number.
            #[must_use]
            pub const fn new(number: u64) -> Self {
                Self(number)
            }

            /// Its number.
            #[must_use]
            pub const fn get(self) -> u64 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

number! {
    /// How often a flow has changed its owner: 0 until the first one has it. Resources that keep the
    /// highest epoch they saw can refuse what an owner of the past sends.
    Epoch
}

number! {
    /// One start of a node. A node that starts again, or that lost its lease, is another one.
    Incarnation
}

/// The name of a record within its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId {
    /// The epoch of the owner that wrote it.
    pub epoch: Epoch,
    /// Its number in the flow. The numbers of a flow go on over its epochs.
    pub sequence: u64,
}

impl RecordId {
    /// The record of the start, which the journal writes.
    pub const FIRST: Self = Self { epoch: Epoch::new(0), sequence: 0 };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_uid_is_read_back_and_other_texts_are_not() {
        let uid = Uid::random().unwrap();
        assert_eq!(uid.to_string().parse(), Ok(uid));
        assert_ne!(uid, Uid::random().unwrap());
        for text in ["", "00", "+0000000000000000000000000000000", &"g".repeat(32), &"0".repeat(33)]
        {
            assert_eq!(text.parse::<Uid>(), Err(ParseUidError), "{text}");
        }
    }
}
