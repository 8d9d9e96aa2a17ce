//! The business logic of an interface's functions, while it is given to the executor.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use asyncsteps::Template;
use asyncsteps_futoin::iface::Definition;

use super::config_error::ConfigError;
use super::implementation::Implementation;

/// What it means that a declared function has no template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Others {
    Forgotten,
    NotImplemented,
}

/// Takes the business logic of an interface's functions, which share a state `S`.
pub struct Functions<S = ()> {
    pub(super) definition: Arc<Definition>,
    /// `None` for what is not implemented on purpose.
    #[cfg_attr(not(feature = "schemars"), expect(dead_code, reason = "handlers read it"))]
    pub(super) state: Arc<S>,
    implementations: HashMap<Box<str>, Option<Implementation>>,
    others: Others,
    /// The codes that errors of the service have, if it has handlers.
    pub(super) codes: Vec<&'static str>,
    pub(super) errors: Vec<ConfigError>,
}

impl<S> Functions<S> {
    pub(super) fn new(definition: Arc<Definition>, state: Arc<S>) -> Self {
        Self {
            definition,
            state,
            implementations: HashMap::new(),
            others: Others::Forgotten,
            codes: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// The function's business logic: a flow of it runs for each request.
    ///
    /// An error that ends the flow reaches the caller with its code and information if the function
    /// has the code in `throws`, or if it is one of those that FTN3 §1.9.1 has executors raise, such as
    /// InvalidRequest, Unauthorized or DefenseRejected. Any other, a `Timeout` among them, is
    /// InternalError, "Not expected error", for the caller; its cause and step go to the log
    /// and to [`Hooks::not_expected`](super::Hooks::not_expected).
    pub fn add(&mut self, function: &str, template: &Template) -> &mut Self {
        self.set(function, Some(template.into()))
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

    pub(super) fn set(
        &mut self,
        function: &str,
        implementation: Option<Implementation>,
    ) -> &mut Self {
        let iface = || self.definition.id().clone();
        let function = function.to_owned();
        if self.definition.function(&function).is_none() {
            self.errors.push(ConfigError::NoSuchFunction { iface: iface(), function });
        } else if self.implementations.contains_key(&*function) {
            self.errors.push(ConfigError::Twice { iface: iface(), function });
        } else {
            self.implementations.insert(function.into(), implementation);
        }
        self
    }

    pub(super) fn finish(self) -> Result<HashMap<Box<str>, Option<Implementation>>, ConfigError> {
        let Self { definition, implementations, others, codes, mut errors, .. } = self;
        let iface = || definition.id().clone();
        let throws = |code: &str| definition.functions().any(|function| function.throws(code));
        for code in codes.into_iter().filter(|code| !throws(code)) {
            errors.push(ConfigError::Undeclared { iface: iface(), code });
        }
        let names = definition.functions().map(|function| function.name());
        let missing: Vec<&str> = names.filter(|it| !implementations.contains_key(*it)).collect();
        if !missing.is_empty() && others == Others::Forgotten {
            let functions = missing.join(", ");
            errors.push(ConfigError::Missing { iface: iface(), functions });
        }
        ConfigError::of(errors).map_or(Ok(implementations), Err)
    }
}

impl<S> fmt::Debug for Functions<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Functions")
            .field("definition", self.definition.id())
            .field("implementations", &self.implementations)
            .field("others", &self.others)
            .finish_non_exhaustive()
    }
}
