//! How a service learns who calls (FTN8.1 §2).

use asyncsteps_core::codes;
use asyncsteps_executor::iface::Function;
use asyncsteps_executor::message::{Coding, Request, Response};
use asyncsteps_executor::security::{MacAlgorithm, MacKey, Secret};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::call_error::CallError;

/// How a service learns who calls.
#[derive(Clone, Debug)]
pub(super) enum ServiceCredentials {
    Anonymous,
    Password(String, Secret),
    Signature(String, MacAlgorithm, MacKey),
}

impl ServiceCredentials {
    /// The request with them, for a message in `coding`. Nothing of it may change afterwards.
    pub(super) fn seal(
        &self,
        request: Request,
        coding: Coding,
        function: Option<&Function>,
    ) -> Request {
        let sec = match self {
            Self::Anonymous => return request,
            Self::Password(user, password) => format!("{user}:{}", password.expose()),
            Self::Signature(user, algorithm, key) => {
                let mac = key.sign(*algorithm, &base(&request, coding, function));
                format!("-hmac:{user}:{}:{mac}", algorithm.name())
            }
        };
        request.with_sec(sec.into())
    }

    /// Checks the signature of an answer in `coding`, if it has to have one.
    pub(super) fn check(
        &self,
        answer: &Response,
        coding: Coding,
        function: Option<&Function>,
    ) -> Result<(), CallError> {
        let Self::Signature(_, algorithm, key) = self else { return Ok(()) };
        let is_right = |mac: &str| {
            let base = answer.signed_fields(coding, function).base();
            STANDARD.decode(mac).is_ok_and(|mac| key.verify(*algorithm, &base, &mac))
        };
        match answer.sec() {
            Some(Value::String(mac)) if is_right(mac) => Ok(()),
            None if answer.code().is_some() => Ok(()),
            None => Err(wrong("the answer has no signature")),
            Some(_) => Err(wrong("the answer has a wrong signature")),
        }
    }
}

/// The bytes that the signature of a request covers: where the coding has bytes, they are signed as
/// bytes, as the service reads them.
fn base(request: &Request, coding: Coding, function: Option<&Function>) -> Vec<u8> {
    let mut message = Vec::new();
    if coding != Coding::Json {
        request.write(coding, function, &mut message);
    }
    match Request::parse(&message) {
        Ok(read) if coding != Coding::Json => read.signed_fields().base(),
        Ok(_) | Err(_) => request.signed_fields().base(),
    }
}

fn wrong(info: &str) -> CallError {
    CallError::unknown(codes::SECURITY_ERROR, info)
}
