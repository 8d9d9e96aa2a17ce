//! The answers to calls by URL, and the messages that all documents have.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Interface, reference};
use crate::iface::{Function, INTERNAL_ERROR, INVALID_REQUEST, Parameter, ResultCheck};
use crate::security::{PLEASE_REAUTH, SECURITY_ERROR};

/// The standard errors of a function that is hosted, by its URL (FTN3 §1.9.1).
const STANDARD: [&str; 6] = [
    INVALID_REQUEST,
    SECURITY_ERROR,
    PLEASE_REAUTH,
    "Unauthorized",
    "DefenseRejected",
    INTERNAL_ERROR,
];

/// What 431 says, from the function or from the server.
const TOO_LARGE: &str =
    "The path and the query are too large; without a body if they are with the headers";

impl Interface<'_> {
    /// The answers to a call by URL, by status.
    pub(super) fn responses(&self, function: &Function) -> Value {
        let codes: Vec<_> = STANDARD.into_iter().chain(function.errors()).collect();
        match self.front.problem_status {
            None => {
                let error = error_of(&codes);
                let success = self.success(function, Some(&error));
                let other = message("A page of another site called", error.clone());
                let large = message(TOO_LARGE, error);
                json!({ "200": success, "403": other, "431": large })
            }
            Some(status_of) => {
                // pages of other sites, and channels that are not secure enough
                let mut by_status =
                    BTreeMap::from([(403, vec![SECURITY_ERROR]), (431, vec![INVALID_REQUEST])]);
                for code in
                    codes.into_iter().filter(|code| !(self.is_signed() && *code == SECURITY_ERROR))
                {
                    by_status.entry(status_of(code)).or_default().push(code);
                }
                let problems = by_status
                    .iter()
                    .map(|(status, codes)| (status.to_string(), problem(*status, codes)));
                let success = ("200".to_owned(), self.success(function, None));
                [success].into_iter().chain(problems).collect()
            }
        }
    }

    /// The answer with the status 200, which can be an error too.
    fn success(&self, function: &Function, error: Option<&Value>) -> Value {
        let result = match &function.result {
            ResultCheck::Nothing | ResultCheck::Raw => None,
            ResultCheck::Whole(check) => Some(self.schema(check)),
            ResultCheck::Variables(variables) => Some(self.variables(variables)),
        };
        let result = result.map(|result| {
            let properties = json!({ "r": result, "sec": { "type": "string" } });
            json!({ "type": "object", "properties": properties, "required": ["r"] })
        });
        let schema = match (result, error) {
            (Some(result), Some(error)) => Some(json!({ "oneOf": [result, error] })),
            (result, error) => result.or_else(|| error.cloned()),
        };
        let mut content = Map::new();
        if let Some(schema) = schema {
            content.insert("application/futoin+json".to_owned(), json!({ "schema": schema }));
        }
        if function.rawresult() {
            content.insert("*/*".to_owned(), json!({}));
        }
        let description = if error.is_some() { "The result or an error" } else { "The result" };
        json!({ "description": description, "content": content })
    }

    /// A result of variables, which has all of them.
    pub(super) fn variables(&self, variables: &[Parameter]) -> Value {
        let schema = |it: &Parameter| {
            let schema = super::described(self.schema(&it.check), it.desc.as_deref());
            (it.name().to_owned(), schema)
        };
        json!({
            "type": "object",
            "properties": variables.iter().map(schema).collect::<Map<_, _>>(),
            "required": variables.iter().map(Parameter::name).collect::<Vec<_>>(),
            "additionalProperties": false,
        })
    }
}

/// An answer that is a message.
pub(super) fn message(description: &str, schema: Value) -> Value {
    let content = json!({ "application/futoin+json": { "schema": schema } });
    json!({ "description": description, "content": content })
}

/// The error message with one of these codes.
fn error_of(codes: &[&str]) -> Value {
    json!({ "allOf": [reference("Error"), { "properties": { "e": { "enum": codes } } }] })
}

/// The problem details of an error with one of these codes.
fn problem(status: u16, codes: &[&str]) -> Value {
    let of_codes = json!({ "properties": { "code": { "enum": codes } } });
    let schema = json!({ "allOf": [reference("Problem"), of_codes] });
    let content = json!({ "application/problem+json": { "schema": schema } });
    let codes = codes.join(", ");
    let description = if status == 431 { format!("{codes}: {TOO_LARGE}") } else { codes };
    let mut problem = json!({ "description": description, "content": content });
    if status == 401 {
        problem["headers"] = json!({ "WWW-Authenticate": { "schema": { "type": "string" } } });
    }
    problem
}

/// The schemas that all documents have.
pub(super) fn schemas() -> Map<String, Value> {
    let (text, rid) = (json!({ "type": "string" }), json!({ "type": ["string", "number"] }));
    let sec =
        json!({ "type": ["string", "object"], "description": "Credentials or a signature (FTN8)" });
    let request = json!({
        "type": "object",
        "description": "A request (FTN3 §1.6)",
        "properties": {
            "f": { "type": "string", "description": "interface:version:function" },
            "p": { "type": "object", "description": "The parameters" },
            "rid": rid,
            "sec": sec,
            "obf": { "type": "object", "description": "The user on whose behalf another service calls" },
            "forcersp": { "type": "boolean", "description": "Also a function without a result answers" },
        },
        "required": ["f"],
        "additionalProperties": false,
        "allOf": [reference("Call")],
    });
    let error = json!({
        "type": "object",
        "description": "The answer to a request that failed (FTN3 §1.7)",
        "properties": { "e": text, "edesc": text, "rid": rid, "sec": text },
        "required": ["e"],
    });
    let success = json!({
        "type": "object",
        "properties": { "r": {}, "rid": rid, "sec": text },
        "required": ["r"],
    });
    let problem = json!({
        "type": "object",
        "description": "Problem details (RFC 9457); `code` is the error code of FutoIn",
        "properties": {
            "title": text, "status": { "type": "integer" }, "detail": text, "code": text, "sec": text,
        },
        "required": ["title", "status", "code"],
    });
    let response = json!({ "oneOf": [success, reference("Error")] });
    [("Request", request), ("Response", response), ("Error", error), ("Problem", problem)]
        .map(|(name, schema)| (name.to_owned(), schema))
        .into_iter()
        .collect()
}
