//! Locking the file for one process.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::{io, process};

#[cfg(target_os = "linux")]
use super::inode::Inode;
use super::tables::io_error;
use crate::error::Error;
use crate::id::Uid;

/// The prefix of the journal's name in the lock file.
const NAME: &str = "journal ";

/// The lock of a journal: held as long as the file is open, so it ends with the process.
#[derive(Debug)]
pub(super) struct FileLock {
    #[cfg(target_os = "linux")]
    _inode: Inode,
    lock: File,
    /// The file's own path, without links.
    file: PathBuf,
    /// The name of the journal that the lock file was last used for.
    name: Option<Uid>,
}

impl FileLock {
    /// Locks a journal, which `journal` may name through links, for this process. The lock file is next to the file
    /// itself, so it is the same one for each of its symbolic links; hard links share the lock on the file.
    pub(super) fn lock(journal: &Path) -> Result<Self, Error> {
        let in_use = |holder| Error::InUse { file: journal.to_owned(), holder };
        let file = own_path(journal).map_err(|error| io_error(&error))?;
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let mut lock = options.open(beside(&file, "-lock")).map_err(|error| io_error(&error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(in_use(holder(&mut lock))),
            Err(TryLockError::Error(error)) => return Err(io_error(&error)),
        }
        #[cfg(target_os = "linux")]
        let inode = Inode::lock(&file).map_err(|error| match error {
            TryLockError::WouldBlock => in_use(OTHER_LOCK.to_owned()),
            TryLockError::Error(error) => io_error(&error),
        })?;
        let name = name(&mut lock);
        let mut guard = Self {
            #[cfg(target_os = "linux")]
            _inode: inode,
            lock,
            file,
            name,
        };
        guard.write().map_err(|error| io_error(&error))?;
        guard.check_length()?;
        Ok(guard)
    }

    /// The file's own path, without links.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// Refuses a file of no bytes that had some. SQLite is not asked: it would remove the log.
    fn check_length(&self) -> Result<(), Error> {
        let length = |path: &Path| fs::metadata(path).map_or(0, |found| found.len());
        if length(&self.file) > 0 {
            return Ok(());
        }
        let log = beside(&self.file, "-wal");
        if self.name.is_none() && length(&log) > 0 {
            let (file, was) = (self.file.clone(), "a journal".to_owned());
            return Err(Error::Emptied { file, was, left: log });
        }
        self.check_new()
    }

    /// Refuses to make a journal in the file, if there was one.
    pub(super) fn check_new(&self) -> Result<(), Error> {
        let Some(name) = self.name else { return Ok(()) };
        let (file, was) = (self.file.clone(), format!("the journal {name}"));
        Err(Error::Emptied { left: beside(&file, "-lock"), file, was })
    }

    /// Notes the name of the journal, which is in the file after a commit.
    pub(super) fn keep(&mut self, name: Uid) -> Result<(), Error> {
        match self.name.replace(name) {
            Some(known) if known == name => return Ok(()),
            Some(other) => tracing::warn!(
                file = %self.file.display(),
                journal = %name,
                before = %other,
                "another journal is in the file than before"
            ),
            None => {}
        }
        self.write().and_then(|()| self.lock.sync_all()).map_err(|error| io_error(&error))
    }

    /// Writes who has it, for people, and the journal's name. A kill in between leaves all of it, or the text before.
    fn write(&mut self) -> io::Result<()> {
        let name = self.name.map_or_else(String::new, |name| format!("{NAME}{name}\n"));
        let text = format!("process {}\n{name}", process::id());
        self.lock.seek(SeekFrom::Start(0))?;
        self.lock.write_all(text.as_bytes())?;
        self.lock.set_len(text.len() as u64)
    }
}

/// Who has a file whose lock file is free.
#[cfg(target_os = "linux")]
const OTHER_LOCK: &str = "a process with another lock file, such as by a hard link";

/// A file next to the journal.
pub(super) fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(suffix);
    PathBuf::from(name)
}

/// The path of a file without links; the file is made if it is not there. One that is there is not opened:
/// to close it would end the locks that SQLite has on it in this process.
fn own_path(file: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            File::options().append(true).create(true).open(file)?;
            fs::canonicalize(file)
        }
        path => path,
    }
}

/// The name of the journal in a lock file.
fn name(lock: &mut File) -> Option<Uid> {
    text(lock).lines().nth(1)?.strip_prefix(NAME)?.parse().ok()
}

fn holder(lock: &mut File) -> String {
    // it may be empty for a moment, after the first lock and before the text
    text(lock).lines().next().unwrap_or("another process").to_owned()
}

/// The text of a lock file; it is for people and for a warning, so an unreadable file counts as
/// empty.
fn text(lock: &mut File) -> String {
    let mut text = String::new();
    match lock.take(200).read_to_string(&mut text) {
        Ok(_) => text,
        Err(_) => String::new(),
    }
}
