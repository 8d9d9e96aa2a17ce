//! Compiled definitions: an executor's knowledge of an interface, and its checks.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::check::Check;
use super::function::Function;
use super::name::{IfaceVer, Version};

const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Definition>();
};

/// One interface in one version, with everything it inherits and imports; immutable.
#[derive(Debug)]
pub struct Definition {
    pub(crate) id: IfaceVer,
    /// A text for people, here and in functions, parameters and types.
    pub(crate) desc: Option<Box<str>>,
    pub(crate) funcs: BTreeMap<Box<str>, Arc<Function>>,
    pub(crate) types: BTreeMap<Box<str>, CustomType>,
    pub(crate) requires: Box<[Box<str>]>,
    pub(crate) inherits: Box<[Arc<Self>]>,
}

/// An entry of `types` (FTN3 §1.8.1).
#[derive(Debug)]
pub(crate) struct CustomType {
    /// As its definition writes it.
    pub(crate) written: Value,
    /// The one that all references to the type share.
    pub(crate) check: Arc<Check>,
    pub(crate) desc: Option<Box<str>>,
}

impl Definition {
    /// Name and version.
    #[must_use]
    pub fn id(&self) -> &IfaceVer {
        &self.id
    }

    /// The interface's name.
    #[must_use]
    pub fn iface(&self) -> &str {
        self.id.iface()
    }

    /// The interface's version.
    #[must_use]
    pub fn version(&self) -> Version {
        self.id.version()
    }

    /// All functions, also those inherited and imported, sorted by name. A clone of one can be kept
    /// without the definition.
    pub fn functions(&self) -> impl Iterator<Item = &Arc<Function>> {
        self.funcs.values()
    }

    /// The function of this name.
    #[must_use]
    pub fn function(&self, name: &str) -> Option<&Function> {
        self.funcs.get(name).map(Arc::as_ref)
    }

    /// The custom types by name, also those inherited and imported, each as its definition writes it
    /// (FTN3 §1.8.1).
    pub fn types(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.types.iter().map(|(name, custom)| (&**name, &custom.written))
    }

    /// The type of what a function emits while it runs, for which FTN3 has no word: the custom type named after it, such
    /// as `OrderEvent` of `order`, if there is one.
    #[must_use]
    pub fn event_type(&self, function: &str) -> Option<&str> {
        self.types.get_key_value(event_type(function).as_str()).map(|(name, _)| &**name)
    }

    /// The conditions of a call, such as `AllowAnonymous` (FTN3 §2.4), in the order of the file.
    pub fn constraints(&self) -> impl Iterator<Item = &str> {
        self.requires.iter().map(AsRef::as_ref)
    }

    /// Whether `constraint` is among the conditions of a call (FTN3 §2.4).
    #[must_use]
    pub fn requires(&self, constraint: &str) -> bool {
        self.constraints().any(|name| name == constraint)
    }

    /// The interfaces under whose names this one can be called, its parent first (FTN3 §2.3).
    ///
    /// A function that the parent does not have cannot be called under the parent's name: look it up in
    /// the parent before you use this definition's function.
    #[must_use]
    pub fn inherits(&self) -> &[Arc<Self>] {
        &self.inherits
    }
}

/// The name of the type of what a function emits.
pub(crate) fn event_type(function: &str) -> String {
    let (first, rest) = function.split_at(function.len().min(1));
    format!("{}{rest}Event", first.to_ascii_uppercase())
}
