//! The declaration of an interface: loaded, or written down from the types of its handlers.

use std::collections::BTreeMap;
use std::sync::Arc;

use asyncsteps_futoin::iface::{Definition, IfaceVer};
use asyncsteps_futoin::typed::Interface;

use super::config_error::ConfigError;
use super::handler_types::EventTypes;
use super::implementation::Implementation;

/// The declaration of an interface, for [`Builder::service`](super::Builder): a definition that was
/// loaded or a
/// [`typed::Interface`](asyncsteps_futoin::typed::Interface), to which handlers add the functions
/// that it does not declare.
#[derive(Debug)]
pub struct Declaration(Kind);

#[derive(Debug)]
enum Kind {
    Loaded(Arc<Definition>),
    Written(Interface),
}

/// The functions of an interface by name; `None` for functions that are not implemented on purpose.
pub(super) type Implementations = BTreeMap<Box<str>, Option<Implementation>>;

impl From<Arc<Definition>> for Declaration {
    fn from(definition: Arc<Definition>) -> Self {
        Self(Kind::Loaded(definition))
    }
}

impl From<Interface> for Declaration {
    fn from(interface: Interface) -> Self {
        Self(Kind::Written(interface))
    }
}

impl Declaration {
    pub(super) fn id(&self) -> &IfaceVer {
        match &self.0 {
            Kind::Loaded(definition) => definition.id(),
            Kind::Written(interface) => interface.id(),
        }
    }

    /// The interface, if it is written down from types.
    pub(super) fn written(&self) -> Option<&Interface> {
        match &self.0 {
            Kind::Loaded(_) => None,
            Kind::Written(interface) => Some(interface),
        }
    }

    /// The definition, with the functions that only handlers declare.
    pub(super) fn complete(
        &mut self,
        implementations: &Implementations,
        events: &BTreeMap<Box<str>, EventTypes>,
    ) -> Result<Arc<Definition>, ConfigError> {
        match &mut self.0 {
            Kind::Loaded(definition) => Ok(Arc::clone(definition)),
            Kind::Written(interface) => {
                for (name, implementation) in implementations {
                    let types = implementation.as_ref().and_then(|it| it.types);
                    if let Some(types) = types {
                        (types.declare)(interface, name);
                    }
                }
                for (name, types) in events {
                    interface.declared(name).map(types.declare);
                }
                let iface = interface.id().clone();
                interface
                    .definition()
                    .map_err(|error| ConfigError::Written { iface, error: Box::new(error) })
            }
        }
    }
}
