//! Where definitions come from: folders, and texts built into the program.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
    path::PathBuf,
};

use super::{
    error::{LoadError, Rule},
    name::IfaceVer,
};

/// Largest definition read, in bytes: sixteen times FTN3's limit for one message. The largest
/// published definition has a tenth of it.
const MAX_DEFINITION: u64 = 1 << 20;

/// A place to look for `{iface}-{major}.{minor}-iface.json` (FTN3 §2.5).
#[derive(Debug, Clone)]
pub struct Source(Place);

#[derive(Debug, Clone)]
enum Place {
    Folder(PathBuf),
    Texts(BTreeMap<Cow<'static, str>, Cow<'static, str>>),
}

impl Source {
    /// Files of one folder, not of its sub-folders. They are read when they are asked for.
    pub fn folder(path: impl Into<PathBuf>) -> Self {
        Self(Place::Folder(path.into()))
    }

    /// Pairs of a file name and its text, usually from `include_str!`. Of two equal file names the
    /// last one counts.
    pub fn texts<N, T>(files: impl IntoIterator<Item = (N, T)>) -> Self
    where
        N: Into<Cow<'static, str>>,
        T: Into<Cow<'static, str>>,
    {
        let files = files.into_iter().map(|(name, text)| (name.into(), text.into()));
        Self(Place::Texts(files.collect()))
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

    /// The text of `id`'s definition and the name to give it in errors; `None` if it is not here.
    pub(super) fn find(&self, id: &IfaceVer) -> Result<Option<Found<'_>>, LoadError> {
        // The grammar of interface names keeps this inside the folder.
        let name = format!("{}-{}-iface.json", id.iface(), id.version());
        match &self.0 {
            Place::Texts(files) => {
                let text = files.get(name.as_str()).map(|text| Cow::Borrowed(text.as_ref()));
                Ok(text.map(|text| Found { file: name, text }))
            }
            Place::Folder(folder) => {
                let path = folder.join(&name);
                let file = path.display().to_string();
                let fail = |rule| LoadError::new(&file, String::new(), rule);
                match File::open(&path) {
                    Ok(open) => {
                        let text = read(open).map_err(fail)?;
                        Ok(Some(Found { text: Cow::Owned(text), file }))
                    }
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                    Err(error) => Err(fail(Rule::Unreadable(error))),
                }
            }
        }
    }
}

/// A definition's text as a source gave it.
pub(super) struct Found<'a> {
    pub(super) file: String,
    pub(super) text: Cow<'a, str>,
}

fn read(file: File) -> Result<String, Rule> {
    let mut text = String::new();
    let length = file.take(MAX_DEFINITION + 1).read_to_string(&mut text);
    let length = length.map_err(Rule::Unreadable)?;
    if length as u64 > MAX_DEFINITION { Err(Rule::TooLarge(MAX_DEFINITION)) } else { Ok(text) }
}
