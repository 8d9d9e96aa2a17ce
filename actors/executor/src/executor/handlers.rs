//! Handlers with types as functions of an interface.

use std::sync::Arc;

use asyncsteps::Codes;
use asyncsteps_futoin::typed::differences;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::config_error::ConfigError;
use super::functions::Functions;
use super::implementation::Implementation;
use crate::service::{Handler, Service, typed_template};

impl<S: Service> Functions<S> {
    /// The function's business logic as a handler with types: a function that adds steps, or an
    /// `async fn`; see [`service`](crate::service). Its errors are those of [`add`](Self::add), with
    /// the codes of [`Service::Errors`].
    ///
    /// Each point in which the types differ from the definition is an error when the executor is
    /// built.
    #[track_caller]
    pub fn on<Form, H>(&mut self, function: &str, handler: H) -> &mut Self
    where
        H: Handler<S, Form>,
        H::Params: DeserializeOwned + JsonSchema,
        H::Result: Serialize + JsonSchema,
    {
        if self.definition.function(function).is_some() {
            for found in differences::<H::Params, H::Result>(&self.definition, function) {
                self.errors.push(ConfigError::Type {
                    iface: self.definition.id().clone(),
                    function: function.to_owned(),
                    at: found.at,
                    what: found.what,
                });
            }
        }
        if self.codes.is_empty() {
            self.codes = S::Errors::all();
        }
        let template = typed_template(Arc::clone(&self.state), handler);
        self.set(function, Some(Implementation::typed::<H::Result>(template)))
    }
}
