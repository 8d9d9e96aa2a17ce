//! What the steps of a request see of it (FTN6 §2.6 `reqinfo`).

use std::net::SocketAddr;

use asyncsteps::{AsyncSteps, Error, StepResult, codes};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::iface::FunctionName;
use crate::message::Rid;

/// The way a request came.
#[derive(Clone, Debug)]
pub struct Channel {
    /// The transport.
    pub kind: ChannelKind,
    /// Whether nobody between the caller and here can read or change messages.
    pub secure: bool,
    /// The other end, if the transport knows it.
    pub peer: Option<SocketAddr>,
}

/// The transports of FTN5 and in-process calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChannelKind {
    /// One HTTP request.
    Http,
    /// A call from the same process.
    Local,
}

/// The request that a flow serves: what is known of it, and its result.
#[derive(Debug)]
pub struct RequestInfo {
    function: FunctionName,
    params: Map<String, Value>,
    rid: Option<Rid>,
    channel: Channel,
    result: Option<Value>,
}

impl RequestInfo {
    pub(super) fn new(
        function: FunctionName,
        params: Map<String, Value>,
        rid: Option<Rid>,
        channel: Channel,
    ) -> Self {
        Self { function, params, rid, channel, result: None }
    }

    /// The function as the caller named it.
    #[must_use]
    pub fn function(&self) -> &FunctionName {
        &self.function
    }

    /// The checked parameters, defaults filled in.
    #[must_use]
    pub fn params(&self) -> &Map<String, Value> {
        &self.params
    }

    /// The caller's number of the request.
    #[must_use]
    pub fn rid(&self) -> Option<&Rid> {
        self.rid.as_ref()
    }

    /// The way the request came.
    #[must_use]
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    pub(super) fn take_result(&mut self) -> Option<Value> {
        self.result.take()
    }
}

/// The request API of the steps of a template that serves requests (FTN12 §1, "derived classes").
///
/// In a flow that does not serve a request each function fails with InternalError.
pub trait RequestSteps {
    /// What is known of the request.
    ///
    /// # Errors
    /// InternalError if the flow serves no request.
    fn request(&self) -> Result<&RequestInfo, Error>;

    /// All parameters as a type that serde can read.
    ///
    /// # Errors
    /// InternalError if the type does not fit what the interface declares.
    fn params<T: DeserializeOwned>(&self) -> Result<T, Error>;

    /// One parameter.
    ///
    /// # Errors
    /// InternalError if it is not declared, or the type does not fit what the interface declares.
    fn param<T: DeserializeOwned>(&self, name: &str) -> Result<T, Error>;

    /// Sets the result of the request; a later one replaces it. The step goes on.
    ///
    /// # Errors
    /// InternalError if `result` cannot be written as JSON.
    fn reply<T: Serialize>(&mut self, result: T) -> StepResult;
}

impl RequestSteps for AsyncSteps {
    fn request(&self) -> Result<&RequestInfo, Error> {
        self.extension().ok_or_else(no_request)
    }

    fn params<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let params = &self.request()?.params;
        T::deserialize(params).map_err(|error| Error::caused_by(codes::INTERNAL_ERROR, error))
    }

    fn param<T: DeserializeOwned>(&self, name: &str) -> Result<T, Error> {
        let value = self.request()?.params.get(name).ok_or_else(|| {
            Error::with_info(codes::INTERNAL_ERROR, format!("no parameter {name} is declared"))
        })?;
        T::deserialize(value).map_err(|error| Error::caused_by(codes::INTERNAL_ERROR, error))
    }

    fn reply<T: Serialize>(&mut self, result: T) -> StepResult {
        let result = serde_json::to_value(result)?;
        self.extension_mut::<RequestInfo>().ok_or_else(no_request)?.result = Some(result);
        Ok(())
    }
}

fn no_request() -> Error {
    Error::with_info(codes::INTERNAL_ERROR, "the flow serves no request")
}
