//! The file that a declaration comes from.

use crate::iface::error::{LoadError, Rule};
use crate::iface::name::{IfaceVer, Version};

/// The file of a definition, which its declarations refer to.
#[derive(Debug)]
pub(crate) struct SourceFile {
    pub(crate) id: IfaceVer,
    /// With its folder if it has one.
    pub(crate) name: String,
    /// The file's `ftn3rev`.
    pub(crate) revision: Version,
}

impl SourceFile {
    /// An error at a JSON Pointer into the file.
    pub(crate) fn fail(&self, pointer: String, rule: Rule) -> LoadError {
        LoadError::new(&self.name, pointer, rule)
    }

    /// Refuses a feature of FTN3 1.`since` if the file is written for an older revision (FTN3 §2.6).
    pub(crate) fn require(&self, since: u32, feature: &'static str) -> Result<(), Rule> {
        let since = Version::new(1, since);
        if self.revision < since { Err(Rule::NewerFeature { feature, since }) } else { Ok(()) }
    }
}
