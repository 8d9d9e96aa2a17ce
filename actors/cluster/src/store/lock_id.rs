//! The name of a lock, and its key.

use std::sync::Arc;

use asyncsteps_actors::sync::FencingToken;

use crate::error::Error;

/// The longest name and the longest key, in bytes.
const LONGEST: usize = 512;

/// Which lock it is, on all nodes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockId {
    /// The name, at most 512 bytes.
    pub name: &'static str,
    /// The key, at most 512 bytes and without a zero byte; empty for the lock itself.
    pub key: Arc<str>,
}

impl LockId {
    /// Whether a store can have such a lock.
    pub(crate) fn check(&self) -> Result<(), Error> {
        for (what, text) in [("name", self.name), ("key", &*self.key)] {
            if text.len() > LONGEST {
                let length = text.len();
                return Err(Error::Name(format!(
                    "the {what} of a lock has {length} bytes, at most {LONGEST} are possible"
                )));
            }
            if let Some(at) = text.bytes().position(|byte| byte == 0) {
                return Err(Error::Name(format!("the {what} of a lock has a zero byte at {at}")));
            }
        }
        Ok(())
    }

    pub(crate) fn fence(&self, epoch: u64) -> FencingToken {
        FencingToken::new(self.name, Arc::clone(&self.key), epoch)
    }
}
