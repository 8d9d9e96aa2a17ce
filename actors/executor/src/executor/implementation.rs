//! The business logic of a function as it is hosted.

use std::fmt;

use asyncsteps::{Args, Error, Template};
use asyncsteps_futoin::iface::Definition;

use super::config_error::ConfigError;
#[cfg(feature = "schemars")]
use super::handler_types::HandlerTypes;

/// The business logic of a function.
pub(super) struct Implementation {
    pub(super) template: Template,
    /// The types of a handler; `None` for a template, whose last step gives JSON.
    #[cfg(feature = "schemars")]
    pub(super) types: Option<HandlerTypes>,
}

impl Implementation {
    /// The points in which the types of the handler differ from the definition.
    #[cfg_attr(not(feature = "schemars"), expect(unused_variables, reason = "of handlers only"))]
    pub(super) fn differences(&self, definition: &Definition, function: &str) -> Vec<ConfigError> {
        #[cfg(feature = "schemars")]
        if let Some(types) = self.types {
            return (types.differences)(definition, function);
        }
        Vec::new()
    }

    /// What the last step gave, as a result can be merged of it.
    pub(super) fn written(&self, args: Args) -> Result<Args, Error> {
        #[cfg(feature = "schemars")]
        if let Some(types) = self.types {
            return (types.write)(args);
        }
        Ok(args)
    }
}

impl From<&Template> for Implementation {
    fn from(template: &Template) -> Self {
        Self {
            template: template.clone(),
            #[cfg(feature = "schemars")]
            types: None,
        }
    }
}

impl fmt::Debug for Implementation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.template.fmt(f)
    }
}
