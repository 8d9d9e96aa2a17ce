//! Refusals of parameters and results that break a definition.

use std::{fmt, io};

use serde_json::Value;

use super::name::FunctionName;
use crate::refusal::Refusal;

/// FTN3 §1.9.1: the caller sent something the interface does not allow.
pub const INVALID_REQUEST: &str = "InvalidRequest";

/// FTN3 §1.9.1: the executor failed in a way the interface does not declare.
pub const INTERNAL_ERROR: &str = "InternalError";

/// How many bytes of a caller's value or name a text repeats at most, so that no answer grows with it.
const MAX_QUOTED: usize = 64;

pub(super) fn unknown_parameter(called: &FunctionName, name: &str) -> Refusal {
    request(format!("Unknown parameter: {called}({})", clipped(name)))
}

pub(super) fn missing_parameter(called: &FunctionName, name: &str) -> Refusal {
    request(format!("Missing parameter: {called}({name})"))
}

/// The text is the same for a value out of its limits, as in released executors, but for where the mistake is: `at` is a
/// JSON Pointer into the value.
pub(crate) fn parameter_type(
    called: &FunctionName,
    name: &str,
    (value, at): (&Value, &str),
) -> Refusal {
    let text = format!("Type mismatch for parameter: {called}({name})");
    Refusal::quoting(INVALID_REQUEST, text, Quoted { value, at })
}

pub(super) fn unknown_result(function: &str, name: &str) -> Refusal {
    result(format!("Unknown result variable: {function}({})", clipped(name)))
}

pub(super) fn missing_result(function: &str, name: &str) -> Refusal {
    result(format!("Missing result variable: {function}({name})"))
}

pub(super) fn result_type(function: &str, name: &str, (value, at): (&Value, &str)) -> Refusal {
    let text = format!("Type mismatch for result variable: {function}({name})");
    Refusal::quoting(INTERNAL_ERROR, text, Quoted { value, at })
}

pub(super) fn whole_result_type(function: &str, (value, at): (&Value, &str)) -> Refusal {
    let text = format!("Result type mismatch: {function}()");
    Refusal::quoting(INTERNAL_ERROR, text, Quoted { value, at })
}

pub(super) fn result_not_map() -> Refusal {
    Refusal::new(INTERNAL_ERROR, "Invalid message: r")
}

pub(super) fn unexpected_result(function: &str) -> Refusal {
    result(format!("No result variables are expected: {function}()"))
}

pub(super) fn raw_result(function: &str) -> Refusal {
    result(format!("Raw result is expected: {function}()"))
}

fn request(text: String) -> Refusal {
    Refusal::new(INVALID_REQUEST, text)
}

fn result(text: String) -> Refusal {
    Refusal::new(INTERNAL_ERROR, text)
}

/// The longest prefix of `text` that [`MAX_QUOTED`] allows, cut between characters.
pub(crate) fn clipped(text: &str) -> &str {
    let fits = |(start, char): &(usize, char)| start + char.len_utf8() <= MAX_QUOTED;
    match text.char_indices().find(|char| !fits(char)) {
        Some((end, _)) => text.get(..end).unwrap_or_default(),
        None => text,
    }
}

/// A value between double quotes: a string as it is, other values as JSON; cut with an ellipsis. Behind it is where the
/// mistake is in it.
struct Quoted<'a> {
    value: &'a Value,
    at: &'a str,
}

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = self.value.as_str() {
            let shown = clipped(text);
            let more = if shown.len() < text.len() { "..." } else { "" };
            return write!(f, "\"{shown}{more}\"");
        }
        let mut json = Clipped(Vec::new());
        let more = if serde_json::to_writer(&mut json, self.value).is_err() { "..." } else { "" };
        let shown = String::from_utf8_lossy(&json.0);
        write!(f, "\"{}{more}\"", shown.trim_end_matches(char::REPLACEMENT_CHARACTER))?;
        if self.at.is_empty() { Ok(()) } else { write!(f, " at {}", self.at) }
    }
}

/// Accepts [`MAX_QUOTED`] bytes and then fails, so that a large value is not written to its end.
struct Clipped(Vec<u8>);

impl io::Write for Clipped {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(MAX_QUOTED - self.0.len());
        self.0.extend(bytes.iter().take(taken));
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn logs_have_the_text_without_the_value() {
        let called = "a.b:1.0:f".parse().unwrap();
        let refusal = parameter_type(&called, "address", (&json!("1 = High Street"), ""));
        let text = "Type mismatch for parameter: a.b:1.0:f(address)";
        assert_eq!(refusal.unquoted(), text);
        assert_eq!(refusal.to_string(), format!("{text} = \"1 = High Street\""));
        let missing = missing_parameter(&called, "address");
        assert_eq!(missing.unquoted(), missing.to_string());
    }

    #[test]
    fn quoted_values_are_bounded() {
        let deep = (0..50).fold(json!(1), |inner, _| json!([inner, "é".repeat(9)]));
        for (value, expected) in [
            (json!("text"), "\"text\"".to_owned()),
            (json!(""), "\"\"".to_owned()),
            (json!(null), "\"null\"".to_owned()),
            (json!(1.5), "\"1.5\"".to_owned()),
            (json!({"a": [1]}), "\"{\"a\":[1]}\"".to_owned()),
            (json!("x".repeat(64)), format!("\"{}\"", "x".repeat(64))),
            (json!("x".repeat(65)), format!("\"{}...\"", "x".repeat(64))),
            (json!("€".repeat(30)), format!("\"{}...\"", "€".repeat(21))),
            (deep, format!("\"{}1,\"{}...\"", "[".repeat(50), "é".repeat(5))),
        ] {
            assert_eq!(Quoted { value: &value, at: "" }.to_string(), expected);
        }
    }
}
