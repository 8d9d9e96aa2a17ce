//! The templates of an interface's functions, while they are given to the executor.

use std::collections::HashMap;
use std::sync::Arc;

use asyncsteps::sync::ZeroLimit;
use asyncsteps::{Error, Template, codes};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{RequestInfo, RequestSteps};
use crate::channel::Channel;
use crate::security::User;
use asyncsteps_actors::flow::blocking;
use asyncsteps_futoin::iface::{Definition, Function, FunctionName, IfaceVer};

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
    /// Declared functions got neither a template nor
    /// [`not_implemented`](Functions::not_implemented).
    #[error("{iface} got no template for {functions}")]
    Missing {
        /// The interface.
        iface: IfaceVer,
        /// The functions, separated by commas.
        functions: String,
    },
    /// A limiter of clients would let no client in.
    #[error("the limiter {name} cannot be used: {zero}")]
    ZeroLimit {
        /// The name of the limiter.
        name: String,
        /// Which of its limits is 0.
        zero: ZeroLimit,
    },
    /// Clients are to have a limiter that is not defined.
    #[error("there is no limiter {name}")]
    NoSuchLimiter {
        /// The name.
        name: String,
    },
    /// The interface is hosted in the same major version already.
    #[error("{iface} is registered already")]
    Registered {
        /// The interface.
        iface: IfaceVer,
    },
    /// A hosted interface inherits from the same one: a call under the parent's name could be meant for
    /// either (FTN3 §2.3).
    #[error("{iface} inherits from {parent}, as another hosted interface does")]
    ParentShared {
        /// The interface.
        iface: IfaceVer,
        /// The one that both inherit from.
        parent: IfaceVer,
    },
}

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
    /// InternalError, "Not expected error", for the caller, and told with its cause and step to the log
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

    /// Business logic that blocks (files, DNS, long computations), on a thread of the blocking pool:
    /// it gets what is known of the request, and gives the result (FTN6 §1 `BlockingMethod`).
    ///
    /// An error that is an [`asyncsteps::Error`] keeps its code. A request that ends early drops the
    /// result; work that was begun goes on to its end.
    pub fn add_blocking<R, E, F>(&mut self, function: &str, handler: F) -> &mut Self
    where
        R: Serialize,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
        F: Fn(BlockingRequest) -> Result<R, E> + Send + Sync + 'static,
    {
        let handler = Arc::new(handler);
        let template = Template::build(|asi| {
            asi.add(move |asi, ()| {
                let request = BlockingRequest::of(asi.request_mut()?);
                let handler = Arc::clone(&handler);
                let work = move || -> Result<_, Box<dyn std::error::Error + Send + Sync>> {
                    let result = handler(request).map_err(Into::into)?;
                    Ok((serde_json::to_value(result)?,))
                };
                asi.await_(blocking(work)).named("blocking");
                Ok(())
            });
        });
        self.add(function, &template)
    }

    pub(super) fn finish(self) -> Result<HashMap<Box<str>, Option<Template>>, ConfigError> {
        let Self { definition, templates, others, error } = self;
        if let Some(error) = error {
            return Err(error);
        }
        let names = definition.functions().map(Function::name);
        let missing: Vec<&str> = names.filter(|name| !templates.contains_key(*name)).collect();
        if missing.is_empty() || others == Others::NotImplemented {
            return Ok(templates);
        }
        Err(ConfigError::Missing { iface: definition.id().clone(), functions: missing.join(", ") })
    }
}

/// What a handler that blocks knows of its request.
#[derive(Clone, Debug)]
pub struct BlockingRequest {
    function: FunctionName,
    params: Map<String, Value>,
    user: Option<User>,
    channel: Channel,
}

impl BlockingRequest {
    fn of(info: &mut RequestInfo) -> Self {
        Self {
            params: info.take_params(),
            function: info.function().clone(),
            user: info.user().cloned(),
            channel: info.channel().clone(),
        }
    }

    /// The function as the caller named it.
    #[must_use]
    pub fn function(&self) -> &FunctionName {
        &self.function
    }

    /// All parameters, checked and with defaults, as a type that serde can read.
    ///
    /// # Errors
    /// InternalError if the type does not fit what the interface declares.
    pub fn params<T: DeserializeOwned>(&self) -> Result<T, Error> {
        T::deserialize(&self.params).map_err(|error| Error::caused_by(codes::INTERNAL_ERROR, error))
    }

    /// Who calls; `None` for an anonymous caller.
    #[must_use]
    pub fn user(&self) -> Option<&User> {
        self.user.as_ref()
    }

    /// The way the request came.
    #[must_use]
    pub fn channel(&self) -> &Channel {
        &self.channel
    }
}
