//! The business logic of a function as it is hosted.

use std::sync::Arc;

use asyncsteps_core::{Args, Error, Template};
use asyncsteps_futoin::iface::Definition;

use super::config_error::ConfigError;
use super::handler_types::{HandlerTypes, Written};
use super::result_draft::Returned;
use crate::plan::Plan;

/// The business logic of a function.
#[derive(derive_more::Debug)]
#[debug("{template:?}")]
pub(super) struct Implementation {
    template: Template,
    /// The template that callers get instead, if the function runs for requests that a host
    /// remembers.
    front: Option<Template>,
    /// The types of a handler; `None` for a template, whose last step returns JSON.
    pub(super) types: Option<HandlerTypes>,
    /// The steps as data, if they are known.
    pub(super) plan: Option<Arc<Plan>>,
}

impl Implementation {
    /// The business logic of a handler.
    pub(super) fn typed(
        (template, front): (Template, Option<Template>),
        types: HandlerTypes,
        plan: Option<Arc<Plan>>,
    ) -> Self {
        Self { template, front, types: Some(types), plan }
    }

    /// The same with these steps behind it.
    pub(super) fn followed_by(mut self, steps: &Template) -> Self {
        let whole = |function: &Template| {
            Template::build(|whole| {
                whole.copy_from(function);
                whole.copy_from(steps);
            })
        };
        (self.template, self.front) = (whole(&self.template), self.front.as_ref().map(whole));
        self
    }

    /// The template of a request, which its host remembers or not.
    pub(super) fn template(&self, is_remembered: bool) -> &Template {
        self.front.as_ref().filter(|_| !is_remembered).unwrap_or(&self.template)
    }

    /// The template of the function itself, if callers get another one.
    pub(super) fn behind_front(&self) -> Option<&Template> {
        self.front.as_ref().map(|_| &self.template)
    }

    /// The points in which the types of the handler differ from the definition.
    pub(super) fn differences(&self, definition: &Definition, function: &str) -> Vec<ConfigError> {
        if let Some(types) = self.types {
            return types.differences(definition, function);
        }
        Vec::new()
    }

    /// What the last step returned, to be merged into a result.
    pub(super) fn written(&self, args: Args) -> Result<Returned, Error> {
        // the front template replies with its result by `reply`
        let is_front = self.front.is_some() && args.is_empty();
        if let Some(types) = self.types.filter(|_| !is_front) {
            return (types.write)(args).map(|Written(returned)| returned);
        }
        Ok(args.into())
    }
}

impl From<&Template> for Implementation {
    fn from(template: &Template) -> Self {
        Self { template: template.clone(), front: None, types: None, plan: None }
    }
}
