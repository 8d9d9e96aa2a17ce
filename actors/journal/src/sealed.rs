//! Sealed bytes, and the places where they are stored.

use crate::id::{RecordId, Uid};
use crate::path::Path;

/// How sealed bytes begin; all others begin as a list of CBOR. The length of the key's id follows, the id, the nonce,
/// the text and its tag.
pub(crate) const SEALED: u8 = 1;

/// Where something is stored.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(feature = "encryption"),
    expect(dead_code, reason = "a key authenticates all of it")
)]
pub(crate) enum Place<'a> {
    /// A record of a flow.
    Record { flow: Uid, id: RecordId, kind: u8, path: &'a Path },
    /// The value of a signal.
    Signal { flow: Uid, id: Uid, name: &'a str },
    /// The value of an event.
    Event { flow: Uid, path: &'a str, key: &'a str },
    /// A schedule.
    Schedule { name: &'a str },
}

/// Sealed bytes, taken apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SealedBytes<'a> {
    /// The id of the key.
    pub(crate) id: &'a str,
    #[cfg_attr(not(feature = "encryption"), expect(dead_code, reason = "there is no key"))]
    pub(crate) rest: &'a [u8],
}

#[cfg(feature = "encryption")]
impl Place<'_> {
    /// For what a key is derived.
    pub(crate) fn domain(&self) -> Vec<u8> {
        match self {
            Self::Record { flow, .. } | Self::Signal { flow, .. } | Self::Event { flow, .. } => {
                [b"asyncsteps flow ".as_slice(), flow.as_bytes()].concat()
            }
            Self::Schedule { .. } => b"asyncsteps schedules".to_vec(),
        }
    }

    /// The place within that. Only its last part has any length, but for the path of an event, whose length is there.
    pub(crate) fn authenticated(&self) -> Vec<u8> {
        match self {
            Self::Record { id, kind, path, .. } => {
                let number = [id.epoch.get().to_be_bytes(), id.sequence.to_be_bytes()].concat();
                [b"record".as_slice(), &number, &[*kind], path.as_str().as_bytes()].concat()
            }
            Self::Signal { id, name, .. } => {
                [b"signal".as_slice(), id.as_bytes(), name.as_bytes()].concat()
            }
            Self::Event { path, key, .. } => {
                let length = (path.len() as u64).to_be_bytes();
                [b"event".as_slice(), &length, path.as_bytes(), key.as_bytes()].concat()
            }
            Self::Schedule { name } => name.as_bytes().to_vec(),
        }
    }
}

impl<'a> SealedBytes<'a> {
    pub(crate) fn of(stored: &'a [u8]) -> Option<Self> {
        let (length, rest) = stored.strip_prefix(&[SEALED])?.split_first()?;
        let (id, rest) = rest.split_at_checked(usize::from(*length))?;
        Some(Self { id: str::from_utf8(id).ok()?, rest })
    }

    pub(crate) fn unknown_key(&self) -> String {
        format!("it is sealed with the key `{}`, which this program does not have", self.id)
    }
}
