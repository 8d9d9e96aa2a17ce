//! The last step of every function: it writes the result and checks it, so that a result which its
//! caller cannot get fails the flow, and its effects are undone (FTN3 §1.7, §1.10, FTN6 §2.9).

use std::error::Error as _;

use asyncsteps_core::{Args, AsyncSteps, Error, StepResult, Template, codes};
use asyncsteps_futoin::message::Response;
use serde_json::{Number, Value};

use super::error_text::causes;
use super::exchange::Exchange;
use super::request::{RequestInfo, RequestSteps};
use super::result_draft::NotMerged;
use crate::channel::ChannelKind;
use crate::recorder::OfRequest;

/// The size of an answer without its result, in bytes: an id and a signature.
const ENVELOPE: usize = 512;

/// The step for the result, to follow the steps of a function.
pub(super) fn result_step() -> Template {
    Template::build(|steps| _ = steps.add(finish).named("result"))
}

/// The step for the result: it takes what the last step of the function returned.
fn finish(asi: &mut AsyncSteps, returned: Args) -> StepResult {
    let info = asi.request_mut()?;
    let exchange = info.exchange();
    // a front has it written already if it ran the steps of the function itself
    let is_written = info.response.is_some();
    if !is_written && (!exchange.function.declared().rawresult() || exchange.can_reply()) {
        let response = response(info, returned)?;
        if let (Some(host), Some(result)) = (asi.extension::<OfRequest>(), response.result()) {
            host.recorder.ends_with(result)?;
        }
        asi.request_mut()?.response = Some(response);
    }
    Ok(())
}

/// The response with the result, merged in the order of FTN6 §2.9, and checked unless that is switched
/// off.
fn response(info: &mut RequestInfo, returned: Args) -> Result<Response, Error> {
    let returned = match info.exchange().function.implementation() {
        Ok(implementation) => implementation.written(returned).map_err(|error| {
            let cause = error.source().map(causes);
            tracing::error!(cause, "the result of the function cannot be written");
            invalid_result()
        })?,
        Err(_) => returned.into(),
    };
    if let Some(head) = info.exchange().head.take() {
        info.head = Some(head);
    }
    let mut result = info.take_result().merge(returned).map_err(|NotMerged(types)| {
        tracing::error!(returned = %types, "what the last step returned cannot be in the result");
        invalid_result()
    })?;
    let exchange = info.exchange();
    if exchange.reply_to.shared.config.checks_results {
        exchange.function.declared().check_result(&mut result).map_err(|violation| {
            tracing::error!(
                violation = violation.unquoted(),
                "the result does not follow the interface"
            );
            Error::with_info(violation.code(), violation.to_string())
        })?;
    }
    let is_sent = exchange.reply_to.channel.kind() != ChannelKind::Local;
    let size = if is_sent { most_bytes(&result) } else { 0 };
    let response = Response::success(result);
    check_size(exchange, size, &response)?;
    Ok(response)
}

/// Refuses a result that is larger than the function may answer. `size` is about the bytes in which it is sent and no
/// less, so that few results are written twice.
fn check_size(exchange: &Exchange, size: usize, response: &Response) -> Result<(), Error> {
    let (reply_to, function) = (&exchange.reply_to, &exchange.function);
    let most = function.declared().max_response_size();
    if size == 0 || size + ENVELOPE <= most {
        return Ok(());
    }
    let size = reply_to.size_of(response.clone(), function);
    if size <= most {
        return Ok(());
    }
    tracing::error!(size, most, "the result is larger than the function may answer");
    Err(Error::with_info(codes::INTERNAL_ERROR, "Response size has exceeded the limit"))
}

/// The most bytes that a value takes in any coding.
fn most_bytes(value: &Value) -> usize {
    let of_all = |sizes: &mut dyn Iterator<Item = usize>| sizes.sum::<usize>() + 5;
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(number) => most_of_number(number),
        Value::String(text) => most_of_text(text),
        Value::Array(values) => of_all(&mut values.iter().map(|value| most_bytes(value) + 1)),
        Value::Object(map) => {
            of_all(&mut map.iter().map(|(name, value)| most_of_text(name) + most_bytes(value) + 2))
        }
    }
}

/// The most bytes of a number: its digits in JSON, and nine in the other codings.
fn most_of_number(number: &Number) -> usize {
    const INTEGER: usize = 9;
    const LARGE: usize = 25;
    match number.as_i64() {
        Some(small) if small.unsigned_abs() < 100_000_000 => INTEGER,
        Some(_) | None => LARGE,
    }
}

/// The most bytes of a text: JSON writes some characters in six.
fn most_of_text(text: &str) -> usize {
    let is_escaped = |byte: &u8| *byte < b' ' || matches!(byte, b'"' | b'\\');
    text.len() + text.bytes().filter(is_escaped).count() * 5 + 5
}

fn invalid_result() -> Error {
    Error::with_info(codes::INTERNAL_ERROR, "Invalid message: r")
}
