//! The business logic of an interface's functions, while it is added to the executor.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::panic::Location;
use std::sync::Arc;

use asyncsteps_core::Template;
use asyncsteps_futoin::iface::{Definition, IfaceVer};

use super::config_error::ConfigError;
use super::declaration::{Declaration, Implementations};
use super::handler_types::EventTypes;
use super::implementation::Implementation;
use super::request_checks::RequestChecks;
use super::tool::ToolInfo;
use crate::plan::Mistake;

/// Why a declared function has no template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Others {
    Forgotten,
    NotImplemented,
}

/// Takes the business logic of an interface's functions, which share a state `S`.
#[derive(derive_more::Debug)]
#[debug(
    "Functions {{ interface: {:?}, implementations: {implementations:?}, others: {others:?}, .. }}",
    self.declaration.id()
)]
pub struct Functions<S = ()> {
    declaration: Declaration,
    pub(super) state: Arc<S>,
    implementations: Implementations,
    internal: BTreeSet<Box<str>>,
    tools: BTreeMap<Box<str>, Arc<str>>,
    pub(super) events: BTreeMap<Box<str>, EventTypes>,
    others: Others,
    /// The codes that errors of the service have, if it has handlers.
    pub(super) codes: BTreeSet<&'static str>,
    checks: RequestChecks,
    errors: Vec<ConfigError>,
}

/// An interface whose functions fit, the names of its internal functions, and its tools.
type Finished = (Arc<Definition>, Declaration, Implementations, BTreeSet<Box<str>>, Vec<ToolInfo>);

impl<S> Functions<S> {
    pub(super) fn new(declaration: Declaration, state: Arc<S>, checks: RequestChecks) -> Self {
        Self {
            declaration,
            state,
            implementations: Implementations::new(),
            internal: BTreeSet::new(),
            tools: BTreeMap::new(),
            events: BTreeMap::new(),
            others: Others::Forgotten,
            codes: BTreeSet::new(),
            checks,
            errors: Vec::new(),
        }
    }

    /// The interface.
    #[must_use]
    pub fn interface(&self) -> &IfaceVer {
        self.declaration.id()
    }

    /// The checks of the executor for a request, once it is built.
    #[must_use]
    pub fn checks(&self) -> RequestChecks {
        self.checks.clone()
    }

    /// The function's business logic: a flow of it runs for each request.
    ///
    /// An error that ends the flow reaches the caller with its code and information if the function has
    /// the code in `throws`, or if it is one of the errors that FTN3 §1.9.1 lets executors raise, such
    /// as InvalidRequest, Unauthorized or DefenseRejected. Any other, a `Timeout` among them, is
    /// InternalError, "Not expected error", for the caller; its cause and step go to the log and to
    /// [`Hooks::not_expected`](super::Hooks::not_expected).
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

    /// Closes a function to callers from outside: they get SecurityError, whatever their level, and cannot
    /// [submit](crate::recorder) it either. It is called and submitted by the program itself, for whichever user: by the
    /// function in front of it that checks, limits and decides. A call from another node is from outside unless it has
    /// the level System.
    ///
    /// ```
    /// # use asyncsteps_executor::{Executor, Returns, Steps};
    /// # use asyncsteps_executor::typed::Interface;
    /// # fn book(steps: &Steps<(), ()>) -> Returns<()> { steps.pass().returns() }
    /// # fn charge(steps: &Steps<(), ()>) -> Returns<()> { steps.pass().returns() }
    /// # actix::System::new().block_on(async {
    /// let interface = Interface::new("acme.rides:1.0".parse()?);
    /// let executor = Executor::builder()
    ///     .service(interface, (), |functions| {
    ///         functions.on("book", book).on("charge", charge).internal("charge");
    ///     })
    ///     .build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub fn internal(&mut self, function: &str) -> &mut Self {
        self.internal.insert(function.into());
        self
    }

    /// Lists the function as a tool of language models, with a text that says to a model what it does and when to call
    /// it. Transports serve tools, such as HTTP with the Model Context Protocol. A tool has the name of its function,
    /// which no other tool of the executor has. Its callers are callers as all others: with their level and limits.
    ///
    /// ```
    /// # use asyncsteps_executor::{Executor, Returns, Steps};
    /// # use asyncsteps_executor::typed::Interface;
    /// # fn book(steps: &Steps<(), ()>) -> Returns<()> { steps.pass().returns() }
    /// # actix::System::new().block_on(async {
    /// let interface = Interface::new("acme.rides:1.0".parse()?);
    /// let executor = Executor::builder()
    ///     .service(interface, (), |functions| {
    ///         functions.on("book", book).tool("book", "Books a ride for the caller, and charges it");
    ///     })
    ///     .build()?;
    /// assert_eq!(executor.tools()[0].function.func(), "book");
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub fn tool(&mut self, function: &str, what: &str) -> &mut Self {
        self.tools.insert(function.into(), what.into());
        self
    }

    /// A host of the function finds a mistake in it, at this place in the source: an error when the executor is built.
    pub fn mistake(&mut self, function: &str, source: &'static Location<'static>, what: String) {
        self.mistakes(function, vec![Mistake { source, what }]);
    }

    pub(super) fn set(
        &mut self,
        function: &str,
        implementation: Option<Implementation>,
    ) -> &mut Self {
        if self.implementations.contains_key(function) {
            let (iface, function) = (self.declaration.id().clone(), function.to_owned());
            self.errors.push(ConfigError::Twice { iface, function });
        } else {
            self.implementations.insert(function.into(), implementation);
        }
        self
    }

    /// The steps of a function cannot be a plan.
    pub(super) fn mistakes(&mut self, function: &str, mistakes: Vec<Mistake>) {
        let error = |Mistake { source, what }| ConfigError::Plan {
            iface: self.declaration.id().clone(),
            function: function.to_owned(),
            at: source.to_string(),
            what,
        };
        let errors: Vec<_> = mistakes.into_iter().map(error).collect();
        self.errors.extend(errors);
    }

    /// The definition and its functions, if they fit, and which of these are internal.
    pub(super) fn finish(mut self) -> Result<Finished, ConfigError> {
        let definition = self.declaration.complete(&self.implementations, &self.events)?;
        let mut errors = mem::take(&mut self.errors);
        let iface = || definition.id().clone();
        for (name, implementation) in &self.implementations {
            if definition.function(name).is_none() {
                let function = name.to_string();
                errors.push(ConfigError::NoSuchFunction { iface: iface(), function });
            } else if let Some(implementation) = implementation {
                errors.extend(implementation.differences(&definition, name));
            }
        }
        for (name, types) in &self.events {
            errors.extend(types.differences(&definition, name));
        }
        let named = self.internal.iter().chain(self.tools.keys()).chain(self.events.keys());
        for name in named.filter(|name| definition.function(name).is_none()) {
            let function = name.to_string();
            errors.push(ConfigError::NoSuchFunction { iface: iface(), function });
        }
        let throws = |code: &str| definition.functions().any(|function| function.throws(code));
        for code in self.codes.iter().filter(|code| !throws(code)) {
            errors.push(ConfigError::Undeclared { iface: iface(), code });
        }
        let names = definition.functions().map(|function| function.name());
        let missing: Vec<&str> =
            names.filter(|name| !self.implementations.contains_key(*name)).collect();
        if !missing.is_empty() && self.others == Others::Forgotten {
            let functions = missing.join(", ");
            errors.push(ConfigError::Missing { iface: iface(), functions });
        }
        match ConfigError::of(errors) {
            Some(error) => Err(error),
            None => {
                let Self { declaration, implementations, internal, tools, .. } = self;
                let tools = tools.into_iter().filter_map(|(name, what)| {
                    let function = format!("{}:{name}", definition.id()).parse().ok()?;
                    let implementation = implementations.get(&name).and_then(Option::as_ref);
                    let is_stored = implementation.is_some_and(|it| it.behind_front().is_some());
                    Some(ToolInfo {
                        function,
                        what,
                        definition: Arc::clone(&definition),
                        is_stored,
                    })
                });
                let tools = tools.collect();
                Ok((definition, declaration, implementations, internal, tools))
            }
        }
    }
}
