//! The templates of an interface's functions, while they are given to the executor.

use std::collections::HashMap;
use std::sync::Arc;

use asyncsteps::Template;

use crate::iface::{Definition, IfaceVer};

/// Why an executor cannot be built as asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A template was given for a function that the interface does not declare.
    #[error("{iface} has no function {function}")]
    NoSuchFunction {
        /// The interface.
        iface: IfaceVer,
        /// The function.
        function: String,
    },
    /// Two templates were given for one function.
    #[error("{iface} got two templates for {function}")]
    Twice {
        /// The interface.
        iface: IfaceVer,
        /// The function.
        function: String,
    },
    /// The interface is hosted in the same major version already.
    #[error("{iface} is registered already")]
    Registered {
        /// The interface.
        iface: IfaceVer,
    },
}

/// Takes the templates of an interface's functions.
#[derive(Debug)]
pub struct Functions {
    definition: Arc<Definition>,
    templates: HashMap<Box<str>, Template>,
    error: Option<ConfigError>,
}

impl Functions {
    pub(super) fn new(definition: Arc<Definition>) -> Self {
        Self { definition, templates: HashMap::new(), error: None }
    }

    /// The function's business logic: a flow of it runs for each request.
    pub fn add(&mut self, function: &str, template: &Template) -> &mut Self {
        let iface = || self.definition.id().clone();
        let function = function.to_owned();
        if self.definition.function(&function).is_none() {
            let error = ConfigError::NoSuchFunction { iface: iface(), function };
            self.error.get_or_insert(error);
        } else if self.templates.contains_key(&*function) {
            let error = ConfigError::Twice { iface: iface(), function };
            self.error.get_or_insert(error);
        } else {
            self.templates.insert(function.into(), template.clone());
        }
        self
    }

    pub(super) fn finish(self) -> Result<HashMap<Box<str>, Template>, ConfigError> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.templates),
        }
    }
}
