//! The templates of an interface's functions, while they are given to the executor.

use std::collections::HashMap;
use std::sync::Arc;

use asyncsteps::Template;
use asyncsteps_futoin::iface::Definition;

use super::config_error::ConfigError;

/// What it means that a declared function has no template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Others {
    Forgotten,
    NotImplemented,
}

/// Takes the templates of an interface's functions.
#[derive(Debug)]
pub struct Functions {
    definition: Arc<Definition>,
    /// `None` for what is not implemented on purpose.
    templates: HashMap<Box<str>, Option<Template>>,
    others: Others,
    error: Option<ConfigError>,
}

impl Functions {
    pub(super) fn new(definition: Arc<Definition>) -> Self {
        Self { definition, templates: HashMap::new(), others: Others::Forgotten, error: None }
    }

    /// The function's business logic: a flow of it runs for each request.
    ///
    /// An error that ends the flow reaches the caller with its code and information if the function
    /// has the code in `throws`, or if it is one of those that FTN3 §1.9.1 has executors raise, such as
    /// InvalidRequest, Unauthorized or DefenseRejected. Any other, a `Timeout` among them, is
    /// InternalError, "Not expected error", for the caller; its cause and step go to the log
    /// and to [`Hooks::not_expected`](super::Hooks::not_expected).
    pub fn add(&mut self, function: &str, template: &Template) -> &mut Self {
        self.set(function, Some(template.clone()))
    }

    /// Leaves a declared function out on purpose: its callers get NotImplemented. A function that is
    /// merely forgotten is an error when the executor is built.
    pub fn not_implemented(&mut self, function: &str) -> &mut Self {
        self.set(function, None)
    }

    /// Leaves all functions out that get no template, on purpose.
    pub fn others_not_implemented(&mut self) -> &mut Self {
        self.others = Others::NotImplemented;
        self
    }

    fn set(&mut self, function: &str, template: Option<Template>) -> &mut Self {
        let iface = || self.definition.id().clone();
        let function = function.to_owned();
        if self.definition.function(&function).is_none() {
            let error = ConfigError::NoSuchFunction { iface: iface(), function };
            self.error.get_or_insert(error);
        } else if self.templates.contains_key(&*function) {
            let error = ConfigError::Twice { iface: iface(), function };
            self.error.get_or_insert(error);
        } else {
            self.templates.insert(function.into(), template);
        }
        self
    }

    pub(super) fn finish(self) -> Result<HashMap<Box<str>, Option<Template>>, ConfigError> {
        let Self { definition, templates, others, error } = self;
        if let Some(error) = error {
            return Err(error);
        }
        let names = definition.functions().map(|function| function.name());
        let missing: Vec<&str> = names.filter(|name| !templates.contains_key(*name)).collect();
        if missing.is_empty() || others == Others::NotImplemented {
            return Ok(templates);
        }
        Err(ConfigError::Missing { iface: definition.id().clone(), functions: missing.join(", ") })
    }
}
