//! The hosted interfaces, with the template of each function (FTN6 §2.8 `register`).

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use asyncsteps_core::{Template, codes};
use asyncsteps_futoin::iface::{Compatibility, Definition, Function, FunctionName};
use asyncsteps_futoin::message::Coding;
use asyncsteps_futoin::typed::Interface;
use dashmap::DashMap;
use foldhash::fast::FixedState;
use parking_lot::Mutex;

use super::caller::Caller;
use super::config_error::ConfigError;
use super::declaration::Declaration;
use super::functions::Functions;
use super::implementation::Implementation;
use super::refused::Refused;
use super::request_checks::RequestChecks;
use super::tool::ToolInfo;
use crate::channel::{Channel, ChannelKind};
use crate::observe::{FunctionCounts, FunctionFigures};
use crate::plan::{FunctionKind, Plan};
use crate::security::{SecurityLevel, User};

/// The hosted interfaces by name; shared by all arbiters, and open while requests are served.
pub(super) struct Registry {
    /// Each major version of an interface once.
    interfaces: DashMap<Box<str>, Vec<HostedInterface>>,
    /// The functions by their full names, with the version that is hosted: as most callers name them. Callers add none,
    /// so a fixed hash will do.
    names: DashMap<Box<str>, NamedFunction, FixedState>,
    /// Names and major versions that a hosted interface inherits from: each is the parent of one only
    /// (FTN3 §2.3). One interface is registered at a time.
    parents: Mutex<HashSet<(Box<str>, u32)>>,
    max_request_size: AtomicUsize,
    declarations: Mutex<Vec<Declaration>>,
    tools: Mutex<Vec<ToolInfo>>,
    /// The executor's checks, for code that asked for them before it was built.
    pub(super) checks: RequestChecks,
    /// Comes behind the steps of each function.
    result_step: Template,
}

/// A function under a name that callers use.
struct NamedFunction {
    name: FunctionName,
    function: Arc<HostedFunction>,
    /// Whether callers without credentials may call it.
    anonymous: bool,
}

/// One name and major version under which functions can be called.
struct HostedInterface {
    /// The definition under this name: the interface itself, or one that it inherits from.
    called: Arc<Definition>,
    /// Whether this is the interface itself, and not one that it inherits from.
    by_itself: bool,
    /// Whether it may be called anonymously under this name: a parent is no more open because an
    /// interface that inherits from it is.
    anonymous: bool,
    /// The functions that can be called under this name: not the ones that only the derived
    /// interface has.
    functions: BTreeMap<Box<str>, Arc<HostedFunction>>,
}

/// A hosted function, with all that requests to it need.
pub(super) struct HostedFunction {
    definition: Arc<Definition>,
    function: Arc<Function>,
    implementation: Option<Implementation>,
    conditions: Conditions,
    level: SecurityLevel,
    /// Whether only the program itself calls it.
    is_internal: bool,
    /// Whether it represents functions that are hosted elsewhere.
    is_forwarded: bool,
    /// The requests to it, under any of its names.
    pub(super) counts: FunctionCounts,
}

/// The conditions that an interface `requires` of a call under any of its names (FTN3 §2.4).
#[derive(Clone, Copy)]
struct Conditions {
    secure: bool,
    signed: bool,
    bidirectional: bool,
    binary: bool,
}

impl Conditions {
    fn of(definition: &Definition) -> Self {
        Self {
            secure: definition.requires("SecureChannel"),
            signed: definition.requires("MessageSignature"),
            bidirectional: definition.requires("BiDirectChannel"),
            binary: definition.requires("BinaryData"),
        }
    }
}

impl Registry {
    pub(super) fn new(result_step: Template) -> Self {
        Self {
            interfaces: DashMap::default(),
            names: DashMap::default(),
            parents: Mutex::default(),
            max_request_size: AtomicUsize::default(),
            declarations: Mutex::default(),
            tools: Mutex::default(),
            checks: RequestChecks::default(),
            result_step,
        }
    }

    pub(super) fn register<S>(
        &self,
        declaration: Declaration,
        state: Arc<S>,
        define: impl FnOnce(&mut Functions<S>),
    ) -> Result<(), ConfigError> {
        let mut functions = Functions::new(declaration, state, self.checks.clone());
        define(&mut functions);
        let (definition, declaration, mut implementations, internal, tools) = functions.finish()?;
        let conditions = Conditions::of(&definition);
        let host = |function: &Arc<Function>| {
            let name: Box<str> = function.name().into();
            // an unknown level counts as the highest (FTN3 §1.12)
            let level = |name: &str| name.parse().unwrap_or(SecurityLevel::System);
            let hosted = HostedFunction {
                definition: Arc::clone(&definition),
                implementation: implementations
                    .remove(&name)
                    .flatten()
                    .map(|it| it.followed_by(&self.result_step)),
                level: function.seclvl().map_or(SecurityLevel::Anonymous, level),
                is_internal: internal.contains(&name),
                function: Arc::clone(function),
                conditions,
                is_forwarded: false,
                counts: FunctionCounts::new(),
            };
            (name, Arc::new(hosted))
        };
        let functions = definition.functions().map(host).collect();
        let size = definition.functions().map(|function| function.max_request_size()).max();
        let mut parents = self.parents.lock();
        let key = |parent: &Definition| (parent.iface().into(), parent.version().major);
        if let Some(parent) = definition.inherits().iter().find(|it| parents.contains(&key(it))) {
            let (iface, parent) = (definition.id().clone(), parent.id().clone());
            return Err(ConfigError::ParentShared { iface, parent });
        }
        let is_new = |name: &str| tools.iter().any(|tool| tool.function.func() == name);
        if let Some(tool) = self.tools().iter().find(|tool| is_new(tool.function.func())) {
            let (iface, function) = (definition.id().clone(), tool.function.to_string());
            return Err(ConfigError::ToolTwice { iface, function });
        }
        self.host(&definition, &definition, &functions)?;
        for parent in definition.inherits() {
            // a parent that is hosted by itself keeps its name
            let _ = self.host(parent, &definition, &functions);
            parents.insert(key(parent));
        }
        self.max_request_size.fetch_max(size.unwrap_or(0), Ordering::Relaxed);
        self.declarations.lock().push(declaration);
        self.tools.lock().extend(tools);
        Ok(())
    }

    /// Lets the functions of `definition` be called under the name of `called`.
    fn host(
        &self,
        called: &Arc<Definition>,
        definition: &Arc<Definition>,
        functions: &BTreeMap<Box<str>, Arc<HostedFunction>>,
    ) -> Result<(), ConfigError> {
        let mut versions = self.interfaces.entry(called.iface().into()).or_default();
        let by_itself = Arc::ptr_eq(called, definition);
        let major = called.version().major;
        let known = versions.iter().position(|hosted| hosted.called.version().major == major);
        match known {
            // an interface itself goes before the same one as a parent of another
            Some(at) if by_itself && !versions[at].by_itself => {
                let parent = versions.remove(at);
                parent.full_names().for_each(|(name, _)| drop(self.names.remove(&*name)));
            }
            Some(_) => return Err(ConfigError::Registered { iface: called.id().clone() }),
            None => {}
        }
        let callable = functions.iter().filter(|(name, _)| called.function(name).is_some());
        let hosted = HostedInterface {
            called: Arc::clone(called),
            by_itself,
            anonymous: called.requires("AllowAnonymous"),
            functions: callable.map(|(name, it)| (name.clone(), Arc::clone(it))).collect(),
        };
        for (text, function) in hosted.full_names() {
            // a name that no request can have is not looked up either
            let Ok(name) = text.parse() else { continue };
            let (function, anonymous) = (Arc::clone(function), hosted.anonymous);
            self.names.insert(text.into(), NamedFunction { name, function, anonymous });
        }
        versions.push(hosted);
        Ok(())
    }

    /// The function of this full name, if that has the version which is hosted and the caller may know it:
    /// what [`resolve`](Self::resolve) finds, without taking the name apart.
    pub(super) fn find(
        &self,
        text: &str,
        caller: &Caller,
    ) -> Option<(FunctionName, Arc<HostedFunction>)> {
        let named = self.names.get(text)?;
        let is_public = named.anonymous || !caller.is_anonymous();
        is_public.then(|| (named.name.clone(), Arc::clone(&named.function)))
    }

    /// The function of this full name, if that has the version which is hosted.
    pub(super) fn named(&self, text: &str) -> Option<(FunctionName, Arc<HostedFunction>)> {
        self.names.get(text).map(|named| (named.name.clone(), Arc::clone(&named.function)))
    }

    /// Finds the function of a request: interface, anonymous access, version, function, in this order.
    /// So an anonymous caller learns nothing of a private interface but that there is one.
    pub(super) fn resolve(
        &self,
        name: &FunctionName,
        caller: &Caller,
    ) -> Result<Arc<HostedFunction>, Refused> {
        let iface = name.iface();
        let versions = self.interfaces.get(iface).ok_or_else(|| {
            Refused::new(codes::UNKNOWN_INTERFACE, format!("Unknown interface: {iface}"))
        })?;
        let wanted = name.version();
        let served = |hosted: &&HostedInterface| hosted.called.version().major == wanted.major;
        let hosted = versions.iter().find(served);
        let is_public = match hosted {
            Some(hosted) => hosted.anonymous,
            None => versions.iter().any(|hosted| hosted.anonymous),
        };
        if caller.is_anonymous() && !is_public {
            return Err(Refused::new(codes::SECURITY_ERROR, "Anonymous not allowed"));
        }
        let Some(hosted) = hosted else {
            let text = format!("Different major version: {iface}:{}", wanted.major);
            return Err(Refused::new(codes::NOT_SUPPORTED_VERSION, text));
        };
        if hosted.called.version().serves(wanted) != Compatibility::Served {
            let text = format!("Iface version is too old: {iface}:{wanted}");
            return Err(Refused::new(codes::NOT_SUPPORTED_VERSION, text));
        }
        hosted.functions.get(name.func()).cloned().ok_or_else(|| {
            let text = format!("Unknown interface function: {}", name.func());
            Refused::unknown_function(text)
        })
    }

    /// Whether the interface of a function is hosted, in a version that serves the call.
    pub(super) fn hosts(&self, name: &FunctionName) -> bool {
        let serves = |hosted: &HostedInterface| {
            hosted.called.version().serves(name.version()) == Compatibility::Served
        };
        self.interfaces.get(name.iface()).is_some_and(|versions| versions.iter().any(serves))
    }

    /// The definition behind a name and version, with all functions that can be called under it.
    pub(super) fn definition(&self, name: &FunctionName) -> Option<Arc<Definition>> {
        let versions = self.interfaces.get(name.iface())?;
        let serves = |hosted: &&HostedInterface| {
            hosted.called.version().serves(name.version()) == Compatibility::Served
        };
        let hosted = versions.iter().find(serves)?;
        Some(Arc::clone(&hosted.functions.get(name.func())?.definition))
    }

    /// Visits the interfaces that are hosted under their own name, each with a test for functions that
    /// are implemented.
    pub(super) fn each(&self, mut visit: impl FnMut(&Definition, &dyn Fn(&str) -> bool)) {
        for versions in &self.interfaces {
            for HostedInterface { called, functions, .. } in
                versions.iter().filter(|it| it.by_itself)
            {
                let implemented = |name: &str| {
                    functions.get(name).is_some_and(|function| function.implementation.is_some())
                };
                visit(called, &implemented);
            }
        }
    }

    /// The interfaces that are hosted under their own name, by name and version.
    pub(super) fn definitions(&self) -> Vec<Arc<Definition>> {
        let mut definitions = Vec::new();
        for versions in &self.interfaces {
            let own = versions.iter().filter(|hosted| hosted.by_itself);
            definitions.extend(own.map(|hosted| Arc::clone(&hosted.called)));
        }
        definitions.sort_by(|one, other| one.id().cmp(other.id()));
        definitions
    }

    /// The figures of all functions, by interface and name.
    pub(super) fn figures(&self) -> Vec<FunctionFigures> {
        let mut figures = Vec::new();
        for versions in &self.interfaces {
            for hosted in versions.iter().filter(|hosted| hosted.by_itself) {
                let functions = hosted.functions.values();
                figures.extend(functions.map(|it| it.figures()));
            }
        }
        figures.sort_by(|one, other| one.function.cmp(&other.function));
        figures
    }

    /// The plans of all functions, by interface and name.
    pub(super) fn plans(&self) -> Vec<Arc<Plan>> {
        let mut plans = Vec::new();
        for versions in &self.interfaces {
            for hosted in versions.iter().filter(|hosted| hosted.by_itself) {
                plans.extend(hosted.functions.values().map(|it| it.plan()));
            }
        }
        plans.sort_by(|one, other| one.function.cmp(&other.function));
        plans
    }

    /// The functions that are listed as tools.
    pub(super) fn tools(&self) -> Vec<ToolInfo> {
        self.tools.lock().clone()
    }

    /// The interfaces that were written down from types.
    pub(super) fn written(&self) -> Vec<Interface> {
        let declarations = self.declarations.lock();
        declarations.iter().filter_map(Declaration::written).cloned().collect()
    }

    pub(super) fn max_request_size(&self) -> usize {
        self.max_request_size.load(Ordering::Relaxed)
    }
}

impl HostedInterface {
    /// Its functions by their full names.
    fn full_names(&self) -> impl Iterator<Item = (String, &Arc<HostedFunction>)> {
        let Self { called, functions, .. } = self;
        functions.iter().map(|(name, function)| (format!("{}:{name}", called.id()), function))
    }
}

impl HostedFunction {
    /// Represents functions that are hosted elsewhere, by the only function of a definition.
    pub(super) fn forwarded(definition: &Arc<Definition>, template: &Template) -> Option<Self> {
        Some(Self {
            definition: Arc::clone(definition),
            function: Arc::clone(definition.functions().next()?),
            implementation: Some(template.into()),
            conditions: Conditions::of(definition),
            level: SecurityLevel::Anonymous,
            is_internal: false,
            is_forwarded: true,
            counts: FunctionCounts::new(),
        })
    }

    /// Whether it represents functions that are hosted elsewhere, which check parameters and errors.
    pub(super) fn is_forwarded(&self) -> bool {
        self.is_forwarded
    }

    /// The function as its interface declares it.
    pub(super) fn declared(&self) -> &Function {
        &self.function
    }

    /// The counts of its requests.
    pub(super) fn figures(&self) -> FunctionFigures {
        self.counts.figures(self.full_name())
    }

    /// Its plan, or that it has none.
    fn plan(&self) -> Arc<Plan> {
        let kind = match &self.implementation {
            Some(Implementation { plan: Some(plan), .. }) => return Arc::clone(plan),
            Some(_) => FunctionKind::Template,
            None => FunctionKind::NotImplemented,
        };
        Arc::new(Plan::without(self.full_name(), kind))
    }

    /// The function's name, with the name of its interface.
    pub(super) fn full_name(&self) -> String {
        format!("{}:{}", self.definition.id(), self.function.name())
    }

    pub(super) fn implementation(&self) -> Result<&Implementation, Refused> {
        self.implementation
            .as_ref()
            .ok_or_else(|| Refused::new(codes::NOT_IMPLEMENTED, "Missing function implementation"))
    }

    /// Whether a caller from outside of the program may know the function.
    pub(super) fn check_outside(&self, caller: &Caller) -> Result<(), Refused> {
        match self.is_internal && caller.level() < SecurityLevel::System {
            true => Err(Refused::new(codes::SECURITY_ERROR, "Internal function")),
            false => Ok(()),
        }
    }

    /// Whether this caller may call the function over this channel, by a message in this coding. Within
    /// the process values have no coding.
    pub(super) fn check_conditions(
        &self,
        channel: &Channel,
        caller: &Caller,
        coding: Coding,
    ) -> Result<(), Refused> {
        let refuse = |text| Err(Refused::new(codes::SECURITY_ERROR, text));
        if channel.kind() != ChannelKind::Local {
            self.check_outside(caller)?;
        }
        let conditions = self.conditions;
        if conditions.secure && !channel.is_secure() {
            return refuse("Insecure channel");
        }
        if conditions.signed && !caller.is_signed() {
            return refuse("Message Signature is required");
        }
        if conditions.bidirectional && !channel.is_bidirectional() {
            let text = "Bi-Direct Channel is required";
            return Err(Refused::new(codes::INVALID_REQUEST, text));
        }
        let is_text = coding == Coding::Json && channel.kind() != ChannelKind::Local;
        if conditions.binary && is_text {
            let text = "Binary message coding is required: CBOR or MessagePack";
            return Err(Refused::new(codes::INVALID_REQUEST, text));
        }
        caller.level().check(self.level).map_err(|denied| {
            let is_final = caller.user().is_some_and(User::has_final_level);
            let code = if is_final { codes::UNAUTHORIZED } else { denied.code() };
            // as it is declared, also if it is unknown
            let required = self.function.seclvl().unwrap_or_else(|| self.level.name());
            Refused::new(code, required.to_owned())
        })
    }
}
