//! Folders of these tests.

use std::path::{Path, PathBuf};
use std::{env, fs, process};

use asyncsteps_journal::sqlite::{Options, Sqlite};

/// A folder that is removed at the end of its test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let folder = env::temp_dir().join(format!("journal-{}-{name}", process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.0.join("journal.db")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // what is left is in the folder for temporary files
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn open(file: &Path) -> Sqlite {
    Sqlite::open(file, Options::new("test 1.0")).expect("a journal")
}
