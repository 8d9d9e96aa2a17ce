//! One process has the file.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::{io, process};

use super::tables::io_error;
use crate::error::Error;

/// The lock of a journal: held as long as the file is open, so it ends with the process.
#[derive(Debug)]
pub(super) struct Guard(#[expect(dead_code, reason = "it is held, and not used")] File);

impl Guard {
    /// Locks a journal for this process; gives the file's own path too, which `journal` may name through
    /// links. The lock is beside the file itself, so it is the same one for each of its names.
    pub(super) fn lock(journal: &Path) -> Result<(Self, PathBuf), Error> {
        let own_path = own_path(journal).map_err(|error| io_error(&error))?;
        let mut name = OsString::from(&own_path);
        name.push("-lock");
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(PathBuf::from(name)).map_err(|error| io_error(&error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let file_name = journal.to_owned();
                return Err(Error::InUse { file: file_name, holder: holder(&mut file) });
            }
            Err(TryLockError::Error(error)) => return Err(io_error(&error)),
        }
        name_holder(&mut file).map_err(|error| io_error(&error))?;
        Ok((Self(file), own_path))
    }
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

/// Writes who has it, for people.
fn name_holder(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    writeln!(file, "process {}", process::id())
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    // it may be empty for a moment, after the lock and before the name
    match file.take(100).read_to_string(&mut text) {
        Ok(length) if length > 0 => text.trim().to_owned(),
        _ => "another process".to_owned(),
    }
}
