//! Which interfaces are hosted, and the template of each function (FTN6 §1.3).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use asyncsteps::{Template, codes};
use dashmap::DashMap;

use super::Refused;
use super::functions::{ConfigError, Functions};
use super::request::{Channel, ChannelKind};
use crate::iface::{Compatibility, Definition, Function, FunctionName};

/// The hosted interfaces by name; shared by all arbiters, and open while requests are served.
#[derive(Default)]
pub(super) struct Registry {
    /// Each major version of an interface once.
    interfaces: DashMap<Box<str>, Vec<Arc<Hosted>>>,
    max_request_size: AtomicUsize,
}

/// One name and major version under which functions can be called.
struct Hosted {
    /// What callers of this name see: the interface itself, or one that it inherits from.
    called: Arc<Definition>,
    implemented: Arc<Implemented>,
}

struct Implemented {
    definition: Arc<Definition>,
    templates: HashMap<Box<str>, Template>,
}

/// The function that a request means.
pub(super) struct Target {
    implemented: Arc<Implemented>,
    name: Box<str>,
}

impl Registry {
    pub(super) fn register(
        &self,
        definition: Arc<Definition>,
        define: impl FnOnce(&mut Functions),
    ) -> Result<(), ConfigError> {
        let mut functions = Functions::new(Arc::clone(&definition));
        define(&mut functions);
        let templates = functions.finish()?;
        let implemented = Arc::new(Implemented { definition: Arc::clone(&definition), templates });
        let parents = definition.inherits().iter().cloned();
        let size = definition.functions().map(Function::max_request_size).max();
        self.host(&definition, &implemented)?;
        for parent in parents {
            // a parent may be hosted on its own
            let _ = self.host(&parent, &implemented);
        }
        self.max_request_size.fetch_max(size.unwrap_or(0), Ordering::Relaxed);
        Ok(())
    }

    fn host(
        &self,
        called: &Arc<Definition>,
        implemented: &Arc<Implemented>,
    ) -> Result<(), ConfigError> {
        let mut versions = self.interfaces.entry(called.iface().into()).or_default();
        let major = called.version().major;
        if versions.iter().any(|hosted| hosted.called.version().major == major) {
            return Err(ConfigError::Registered { iface: called.id().clone() });
        }
        versions.push(Arc::new(Hosted {
            called: Arc::clone(called),
            implemented: Arc::clone(implemented),
        }));
        Ok(())
    }

    /// Finds the function of a request: interface, version, function, in this order.
    pub(super) fn resolve(&self, name: &FunctionName) -> Result<Target, Refused> {
        let iface = name.iface();
        let unknown =
            || Refused::new(codes::UNKNOWN_INTERFACE, format!("Unknown interface: {iface}"));
        let versions = self.interfaces.get(iface).ok_or_else(unknown)?;
        let wanted = name.version();
        let served = |hosted: &&Arc<Hosted>| hosted.called.version().major == wanted.major;
        let Some(hosted) = versions.iter().find(served) else {
            // an anonymous caller is not told about private interfaces
            let public = versions.iter().any(|hosted| hosted.called.requires(ALLOW_ANONYMOUS));
            let text = format!("Different major version: {iface}:{}", wanted.major);
            return Err(if public {
                Refused::new(codes::NOT_SUPPORTED_VERSION, text)
            } else {
                unknown()
            });
        };
        if hosted.called.version().serves(wanted) != Compatibility::Served {
            let text = format!("Iface version is too old: {iface}:{wanted}");
            return Err(Refused::new(codes::NOT_SUPPORTED_VERSION, text));
        }
        if hosted.called.function(name.func()).is_none() {
            let text = format!("Unknown interface function: {}", name.func());
            return Err(Refused::new(codes::INVALID_REQUEST, text));
        }
        Ok(Target { implemented: Arc::clone(&hosted.implemented), name: name.func().into() })
    }

    pub(super) fn max_request_size(&self) -> usize {
        self.max_request_size.load(Ordering::Relaxed)
    }
}

/// Conditions of a call (FTN3 §2.4).
const ALLOW_ANONYMOUS: &str = "AllowAnonymous";
const SECURE_CHANNEL: &str = "SecureChannel";
const MESSAGE_SIGNATURE: &str = "MessageSignature";
const BI_DIRECT_CHANNEL: &str = "BiDirectChannel";

impl Target {
    /// The function's definition.
    pub(super) fn function(&self) -> &Function {
        match self.implemented.definition.function(&self.name) {
            Some(function) => function,
            None => unreachable!("a target is made of a function that exists"),
        }
    }

    pub(super) fn template(&self) -> Result<Template, Refused> {
        self.implemented
            .templates
            .get(&self.name)
            .cloned()
            .ok_or_else(|| Refused::new(codes::NOT_IMPLEMENTED, "Missing function implementation"))
    }

    /// Whether the channel may call the function; all callers are anonymous so far.
    pub(super) fn check_constraints(&self, channel: &Channel) -> Result<(), Refused> {
        let definition = &self.implemented.definition;
        let refuse = |text| Err(Refused::new(codes::SECURITY_ERROR, text));
        if definition.requires(SECURE_CHANNEL) && !channel.secure {
            return refuse("Insecure channel");
        }
        if definition.requires(MESSAGE_SIGNATURE) {
            return refuse("Message Signature is required");
        }
        if !definition.requires(ALLOW_ANONYMOUS) {
            return refuse("Anonymous not allowed");
        }
        if definition.requires(BI_DIRECT_CHANNEL) && channel.kind == ChannelKind::Http {
            let text = "Bi-Direct Channel is required";
            return Err(Refused::new(codes::INVALID_REQUEST, text));
        }
        match self.function().seclvl() {
            None | Some("Anonymous") => Ok(()),
            Some(level) => Err(Refused::new(codes::PLEASE_REAUTH, level)),
        }
    }
}
