//! The lock on the file itself, which is the same one for each of its hard links.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use parking_lot::Mutex;

/// A file by its device and its inode.
type Key = (u64, u64);

/// The journals of this process. One that is here is not opened a second time: to close the second descriptor
/// would end the locks that SQLite has on the file in this process.
static OPEN: Mutex<BTreeSet<Key>> = Mutex::new(BTreeSet::new());

/// A lock on the inode. It is one of `flock`, which on Linux does not meet the locks that SQLite has on ranges of the
/// file.
#[derive(Debug)]
pub(super) struct Inode {
    _file: File,
    /// Dropped after the file is closed.
    _entry: InodeEntry,
}

#[derive(Debug)]
struct InodeEntry(Key);

impl Inode {
    /// Locks the file; [`TryLockError::WouldBlock`] if this process or another one has it.
    pub(super) fn lock(path: &Path) -> Result<Self, TryLockError> {
        let found = fs::metadata(path).map_err(TryLockError::Error)?;
        let entry = InodeEntry::add((found.dev(), found.ino())).ok_or(TryLockError::WouldBlock)?;
        if found.nlink() > 1 {
            tracing::warn!(
                file = %path.display(),
                links = found.nlink(),
                "the journal's file has more than one hard link: after a crash, opening it by another one loses \
                 what is in the log"
            );
        }
        let file = File::open(path).map_err(TryLockError::Error)?;
        file.try_lock()?;
        Ok(Self { _file: file, _entry: entry })
    }
}

impl InodeEntry {
    fn add(key: Key) -> Option<Self> {
        OPEN.lock().insert(key).then(|| Self(key))
    }
}

impl Drop for InodeEntry {
    fn drop(&mut self) {
        OPEN.lock().remove(&self.0);
    }
}
