//! Where definitions come from: folders, and texts built into the program.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use super::error::{LoadError, Rule};
use super::name::IfaceVer;

/// Largest definition read, in bytes: sixteen times FTN3's limit for one message. The largest
/// published definition has a tenth of it.
const MAX_DEFINITION: u64 = 1 << 20;

/// A place to look for `{iface}-{major}.{minor}-iface.json` (FTN3 §2.5).
#[derive(Debug, Clone)]
pub struct Source(Storage);

#[derive(Debug, Clone)]
enum Storage {
    Folder(PathBuf),
    Texts(BTreeMap<Cow<'static, str>, Cow<'static, str>>),
}

impl Source {
    /// The files of one folder, without its sub-folders. A file is read when its definition is loaded.
    pub fn folder(path: impl Into<PathBuf>) -> Self {
        Self(Storage::Folder(path.into()))
    }

    /// Pairs of a file name and its text, usually from `include_str!`. If a name is repeated, the last
    /// one counts.
    pub fn texts<N, T>(files: impl IntoIterator<Item = (N, T)>) -> Self
    where
        N: Into<Cow<'static, str>>,
        T: Into<Cow<'static, str>>,
    {
        let files = files.into_iter().map(|(name, text)| (name.into(), text.into()));
        Self(Storage::Texts(files.collect()))
    }

    /// The definitions every executor should offer: `futoin.ping:1.0` and `futoin.anonping:1.0`
    /// (FTN4), `futoin.burst:0.1` (FTN10).
    #[must_use]
    pub fn builtin() -> Self {
        Self::texts([
            ("futoin.ping-1.0-iface.json", include_str!("../../ifaces/futoin.ping-1.0-iface.json")),
            (
                "futoin.anonping-1.0-iface.json",
                include_str!("../../ifaces/futoin.anonping-1.0-iface.json"),
            ),
            (
                "futoin.burst-0.1-iface.json",
                include_str!("../../ifaces/futoin.burst-0.1-iface.json"),
            ),
        ])
    }

    /// The definition of `id`; `None` if this source does not have it.
    pub(super) fn find(&self, id: &IfaceVer) -> Result<Option<SourceText<'_>>, LoadError> {
        // The grammar of interface names keeps this inside the folder.
        let name = format!("{}-{}-iface.json", id.iface(), id.version());
        match &self.0 {
            Storage::Texts(files) => {
                let text = files.get(name.as_str()).map(|text| Cow::Borrowed(text.as_ref()));
                Ok(text.map(|text| SourceText { file: name, text }))
            }
            Storage::Folder(folder) => {
                let path = folder.join(&name);
                let file = path.display().to_string();
                let fail = |rule| LoadError::new(&file, String::new(), rule);
                match File::open(&path) {
                    Ok(open) => {
                        let text = read(open).map_err(fail)?;
                        Ok(Some(SourceText { text: Cow::Owned(text), file }))
                    }
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                    Err(error) => Err(fail(Rule::Unreadable(error))),
                }
            }
        }
    }
}

/// The text of a definition and its file's name for errors.
pub(super) struct SourceText<'a> {
    pub(super) file: String,
    pub(super) text: Cow<'a, str>,
}

fn read(file: File) -> Result<String, Rule> {
    let mut text = String::new();
    let length = file.take(MAX_DEFINITION + 1).read_to_string(&mut text);
    let length = length.map_err(Rule::Unreadable)?;
    if length as u64 > MAX_DEFINITION { Err(Rule::TooLarge(MAX_DEFINITION)) } else { Ok(text) }
}
