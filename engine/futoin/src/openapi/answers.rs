//! The answers to calls by URL, and the messages that all documents have.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{HttpFront, Interface, reference};
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

const EVENTS: &str = "Server-sent events, if the request accepts them: `emit` with what the function emits while it \
    runs (`x-event`), `lost` with a number of events, and at the end `result` or `error` with a message";

/// What 431 says, from the function or from the server.
const HEAD_TOO_LARGE: &str =
    "The path and the query are too large; without a body if they are with the headers";

const BODY_TOO_LARGE: &str = "The body is too large";
const BODY_LATE: &str = "The body did not come in time";

impl Interface<'_> {
    /// The answers to a call by URL, by status; what they refer to is added to `schemas`.
    pub(super) fn responses(
        &self,
        function: &Function,
        has_params: bool,
        schemas: &mut Map<String, Value>,
    ) -> Value {
        let codes: Vec<_> = STANDARD.into_iter().chain(function.errors()).collect();
        let Some(status_of) = self.front.problem_status else {
            let error = error_of(&codes);
            let success = self.success(function, Some(&error), schemas);
            let other = message("A page of another site called", error.clone());
            let mut all = json!({ "200": success, "403": other, "431": message(HEAD_TOO_LARGE, error.clone()) });
            if has_params {
                all["408"] = json!({ "description": BODY_LATE });
                let text = format!("{BODY_TOO_LARGE}; without a body if for all functions");
                all["413"] = message(&text, error);
            }
            return all;
        };
        let mut by_status = BTreeMap::<u16, Vec<&str>>::new();
        let mut add = |status, code| {
            let codes = by_status.entry(status).or_default();
            if !codes.contains(&code) {
                codes.push(code);
            }
        };
        // pages of other sites, channels that are not secure enough, and users of a lower level
        let mut also = vec![(403, SECURITY_ERROR), (403, PLEASE_REAUTH), (431, INVALID_REQUEST)];
        also.extend([(408, INVALID_REQUEST), (413, INVALID_REQUEST)].iter().filter(|_| has_params));
        also.into_iter().for_each(|(status, code)| add(status, code));
        for code in codes {
            match status_of(code) {
                // other credentials do not help
                401 if self.is_signed() => add(403, code),
                status => add(status, code),
            }
        }
        let problems = by_status.into_iter().map(|(status, codes)| {
            let name = format!("{}Problem", codes.join("Or"));
            schemas.entry(name.clone()).or_insert_with(|| problem(&codes));
            (status.to_string(), problem_answer(status, &codes, &name))
        });
        let problems: Vec<_> = problems.collect();
        let success = ("200".to_owned(), self.success(function, None, schemas));
        [success].into_iter().chain(problems).collect()
    }

    /// The answer with the status 200, which can be an error too.
    fn success(
        &self,
        function: &Function,
        error: Option<&Value>,
        schemas: &mut Map<String, Value>,
    ) -> Value {
        let result = match &function.result {
            ResultCheck::Nothing | ResultCheck::Raw => None,
            ResultCheck::Whole(check) => Some(self.schema(check)),
            ResultCheck::Variables(variables) => {
                let key = self.key(&format!("{}.result", function.name()));
                schemas.insert(key.clone(), self.variables(variables));
                Some(reference(&key))
            }
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
        if let Some(event) = self.definition.event_type(function.name()) {
            let schema = json!({ "type": "string", "description": EVENTS });
            let event = json!({ "schema": schema, "x-event": reference(&self.key(event)) });
            content.insert("text/event-stream".to_owned(), event);
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

/// The answer with problem details, whose schema has this name.
fn problem_answer(status: u16, codes: &[&str], name: &str) -> Value {
    let content = json!({ "application/problem+json": { "schema": reference(name) } });
    let mut description = codes.join(", ");
    let why = match status {
        408 => Some(BODY_LATE),
        413 => Some(BODY_TOO_LARGE),
        431 => Some(HEAD_TOO_LARGE),
        _ => None,
    };
    why.into_iter().for_each(|why| description += &format!(": {why}"));
    let mut answer = json!({ "description": description, "content": content });
    if status == 401 {
        answer["headers"] =
            json!({ "WWW-Authenticate": { "required": true, "schema": { "type": "string" } } });
    }
    answer
}

/// The problem details of an error with one of these codes.
fn problem(codes: &[&str]) -> Value {
    json!({
        "type": "object",
        "description": "Problem details (RFC 9457); `code` is the error code of FutoIn",
        "properties": {
            "title": { "type": "string" },
            "status": { "type": "integer" },
            "detail": { "type": "string" },
            "code": { "type": "string", "enum": codes },
            "sec": { "type": "string" },
        },
        "required": ["title", "status", "code"],
    })
}

/// The schemas of messages, which the document may have or need: one that is called by one of `calls`.
pub(super) fn messages(front: &HttpFront<'_>, calls: Vec<Value>) -> Map<String, Value> {
    let mut schemas = Map::new();
    if front.messages || front.problem_status.is_none() {
        schemas.insert("Error".to_owned(), error());
    }
    if front.messages {
        // a list of no alternatives is no schema
        let call = if calls.is_empty() { json!({ "not": {} }) } else { json!({ "oneOf": calls }) };
        schemas.insert("Call".to_owned(), call);
        schemas.insert("Request".to_owned(), request());
        schemas.insert("Response".to_owned(), response());
    }
    schemas
}

fn error() -> Value {
    json!({
        "type": "object",
        "description": "The answer to a request that failed (FTN3 §1.7)",
        "properties": {
            "e": { "type": "string" }, "edesc": { "type": "string" }, "rid": rid(), "sec": { "type": "string" },
        },
        "required": ["e"],
    })
}

fn request() -> Value {
    json!({
        "type": "object",
        "description": "A request (FTN3 §1.6)",
        "properties": {
            "f": { "type": "string", "description": "interface:version:function" },
            "p": { "type": "object", "description": "The parameters" },
            "rid": rid(),
            "sec": { "type": ["string", "object"], "description": "Credentials or a signature (FTN8)" },
            "obf": { "type": "object", "description": "The user on whose behalf another service calls" },
            "forcersp": { "type": "boolean", "description": "Also a function without a result answers" },
        },
        "required": ["f"],
        "additionalProperties": false,
        "allOf": [reference("Call")],
    })
}

fn response() -> Value {
    let success = json!({
        "type": "object",
        "properties": { "r": {}, "rid": rid(), "sec": { "type": "string" } },
        "required": ["r"],
    });
    json!({ "oneOf": [success, reference("Error")] })
}

fn rid() -> Value {
    json!({ "type": ["string", "number"] })
}
