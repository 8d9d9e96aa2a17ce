//! Folders of benches.

use std::path::{Path, PathBuf};
use std::{fs, process};

/// A folder that is removed at the end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(inside: &Path) -> Self {
        let folder = inside.join(format!("bench-{}", process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // what is left is in a folder for temporary files
        let _ = fs::remove_dir_all(&self.0);
    }
}
