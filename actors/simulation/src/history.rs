//! The history of a run as one number: two runs with the same one did the same.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use parking_lot::Mutex;

/// The history of a cluster. Cloning shares.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClusterHistory(Arc<Mutex<Fnv>>);

impl ClusterHistory {
    /// This happened next.
    pub(crate) fn note(&self, what: impl Hash) {
        what.hash(&mut *self.0.lock());
    }

    pub(crate) fn digest(&self) -> u64 {
        self.0.lock().finish()
    }
}

/// FNV-1a, which is the same in every process.
#[derive(Debug)]
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
