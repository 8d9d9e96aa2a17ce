//! Building an executor: interfaces, the templates of their functions, limits.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps::Template;

use super::registry::Registry;
use super::{Config, ExecutorHandle};
use crate::iface::{Definition, IfaceVer};

/// How long a request may take (FTN6 §1.2): what a person waits without doubt.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a request to a `heavy` function may take (FTN3 §1.6).
const HEAVY_TIMEOUT: Duration = Duration::from_secs(60);

/// How many requests may be unanswered: at two kilobytes each they take 20 MB.
const MAX_REQUESTS: usize = 10_000;

/// Builds an executor; made by [`Executor::builder`](super::Executor::builder).
///
/// ```
/// use asyncsteps::Template;
/// use asyncsteps_actors::executor::{Executor, RequestSteps};
/// use asyncsteps_actors::iface::{Loader, Source};
///
/// let ping = Template::build(|asi| {
///     asi.add(|asi, ()| {
///         let echo = asi.param::<i32>("echo")?;
///         asi.reply(serde_json::json!({ "echo": echo }))
///     });
/// });
/// let mut loader = Loader::new([Source::builtin()]);
/// let executor = Executor::builder()
///     .interface(loader.load(&"futoin.anonping:1.0".parse()?)?, |functions| {
///         functions.add("ping", &ping);
///     })
///     .build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a builder does nothing before it is built"]
pub struct Builder {
    config: Config,
    registry: Registry,
    error: Option<ConfigError>,
}

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

impl Builder {
    pub(super) fn new() -> Self {
        let config = Config {
            request_timeout: REQUEST_TIMEOUT,
            heavy_timeout: HEAVY_TIMEOUT,
            max_requests: MAX_REQUESTS,
        };
        Self { config, registry: Registry::default(), error: None }
    }

    /// Hosts an interface; `define` gives the templates of its functions.
    ///
    /// A declared function without a template is answered with NotImplemented. The functions can
    /// also be called under the names of the interfaces that this one inherits from.
    pub fn interface(
        mut self,
        definition: Arc<Definition>,
        define: impl FnOnce(&mut Functions),
    ) -> Self {
        if let Err(error) = self.registry.register(definition, define) {
            self.error.get_or_insert(error);
        }
        self
    }

    /// How long a request may take until it is answered with InternalError and its flow is
    /// cancelled; 5 s unless set (FTN6 §1.2).
    pub fn request_timeout(mut self, limit: Duration) -> Self {
        self.config.request_timeout = limit;
        self
    }

    /// The same for functions declared `heavy`; 60 s unless set.
    pub fn heavy_timeout(mut self, limit: Duration) -> Self {
        self.config.heavy_timeout = limit;
        self
    }

    /// How many requests may be unanswered at once, over all arbiters; more are answered with
    /// DefenseRejected. 10,000 unless set; 0 refuses everything.
    pub fn max_requests(mut self, limit: usize) -> Self {
        self.config.max_requests = limit;
        self
    }

    /// The executor.
    ///
    /// # Errors
    /// The first [`ConfigError`] of an [`interface`](Self::interface).
    pub fn build(self) -> Result<ExecutorHandle, ConfigError> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(ExecutorHandle::new(self.config, self.registry)),
        }
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("config", &self.config).finish_non_exhaustive()
    }
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
