//! Functions whose business logic blocks its thread (FTN6 §1 `BlockingMethod`).

use std::sync::Arc;

use asyncsteps_actors::flow::blocking;
use asyncsteps_core::{Error, Template, codes};
use asyncsteps_futoin::iface::FunctionName;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::functions::Functions;
use super::request::{RequestInfo, RequestSteps};
use crate::channel::Channel;
use crate::observe::TraceParent;
use crate::security::User;

impl Functions {
    /// Business logic that blocks (files, DNS, long computations), on a thread of the blocking pool:
    /// it receives what is known of the request, and returns the result (FTN6 §1 `BlockingMethod`).
    ///
    /// An error that is an [`asyncsteps_core::Error`] keeps its code. A request that ends early drops the
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
}

/// The request of a handler that blocks.
#[derive(Clone, Debug)]
pub struct BlockingRequest {
    function: FunctionName,
    params: Map<String, Value>,
    user: Option<User>,
    channel: Channel,
    trace: TraceParent,
}

impl BlockingRequest {
    fn of(info: &mut RequestInfo) -> Self {
        Self {
            params: info.take_params(),
            function: info.function().clone(),
            user: info.user().cloned(),
            channel: info.channel().clone(),
            trace: info.handle().trace(),
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

    /// The user; `None` for an anonymous caller.
    #[must_use]
    pub fn user(&self) -> Option<&User> {
        self.user.as_ref()
    }

    /// The channel that the request came over.
    #[must_use]
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// The span of the request in its trace, as [`ServedRequest::trace`](super::ServedRequest::trace).
    #[must_use]
    pub fn trace(&self) -> TraceParent {
        self.trace
    }
}
