//! The operations of a document: a function at its URL, and messages.

use serde_json::{Map, Value, json};

use super::{Interface, answers, described, reference};
use crate::iface::{Function, Parameter, nullable};

impl Interface<'_> {
    /// The URL of a function. Where messages must be signed, its last part is the signature.
    pub(super) fn path(&self, function: &Function) -> String {
        let definition = self.definition;
        let base = self.front.path.trim_end_matches('/');
        let sec = if self.is_signed() { "/{sec}" } else { "" };
        format!("{base}/{}/{}/{}{sec}", definition.iface(), definition.version(), function.name())
    }

    pub(super) fn is_signed(&self) -> bool {
        self.definition.requires("MessageSignature")
    }

    /// The operations at the URL of a function, by method; what they refer to is added to `schemas`.
    pub(super) fn operations(
        &self,
        name: &str,
        methods: &[&'static str],
        function: &Function,
        schemas: &mut Map<String, Value>,
    ) -> Value {
        let example = self.front.examples.get(name);
        let all = methods.iter().map(|method| {
            let is_post = *method == "post";
            let body = is_post.then(|| self.request_body(function, example)).flatten();
            let in_query = if is_post && !function.rawupload() { &[] } else { function.params() };
            // raw data may be of any size
            let has_params = body.is_some() && !function.rawupload();
            let suffix = if is_post { "" } else { "_get" };
            let mut operation = json!({
                "operationId": format!("{}_{}{suffix}", self.name, function.name()),
                "tags": [self.definition.iface()],
                "summary": function.desc.as_deref().unwrap_or(&function.name),
                "description": self.facts(function),
                "parameters": self.parameters(in_query, example),
                "responses": self.responses(function, has_params, schemas),
                "security": self.security(function),
                "x-futoin": {
                    "heavy": function.heavy(),
                    "maxreqsize": function.max_request_size(),
                    "maxrspsize": function.max_response_size(),
                },
            });
            if let Some(body) = body {
                operation["requestBody"] = body;
            }
            ((*method).to_owned(), operation)
        });
        all.collect::<Map<_, _>>().into()
    }

    /// The body of a POST: raw data or the parameters.
    fn request_body(&self, function: &Function, example: Option<&Value>) -> Option<Value> {
        if function.rawupload() {
            return Some(json!({ "content": { "application/octet-stream": {} } }));
        }
        let params = function.params();
        let key = self.key(&format!("{}.params", function.name()));
        let mut content = json!({ "schema": reference(&key) });
        if let Some(example) = example {
            content["example"] = example.clone();
        }
        let is_required = params.iter().any(|param| param.default().is_none());
        let body = json!({ "required": is_required, "content": { "application/json": content } });
        (!params.is_empty()).then_some(body)
    }

    /// What is special about a function, for people.
    fn facts(&self, function: &Function) -> String {
        let secure = self.definition.requires("SecureChannel");
        let facts = [
            (!function.has_result(), "Its success has no body."),
            (function.rawresult(), "Its result is raw data, whose status and headers it may set."),
            (function.rawupload(), "It takes raw data of any size and media type."),
            (function.heavy(), "It may take long."),
            (secure, "It is answered over a secure channel only."),
            (self.is_signed(), "Its request is signed."),
        ];
        let facts = facts.into_iter().filter_map(|(is_so, text)| is_so.then_some(text));
        let (request, response) = (function.max_request_size(), function.max_response_size());
        let limits = format!(
            "At most {request} bytes of path, query and body, and {response} of its answer."
        );
        facts.chain([limits.as_str()]).collect::<Vec<_>>().join(" ")
    }

    fn parameters(&self, in_query: &[Parameter], example: Option<&Value>) -> Value {
        let sec = self.is_signed().then(|| {
            json!({
                "name": "sec", "in": "path", "required": true, "schema": { "type": "string" },
                "description": "`-smac:user:ALGORITHM:base64`, the signature of the request (FTN8.1)",
            })
        });
        let of = |param: &Parameter| example.and_then(|example| example.get(param.name()));
        sec.into_iter().chain(in_query.iter().map(|it| self.in_query(it, of(it)))).collect()
    }

    fn in_query(&self, param: &Parameter, example: Option<&Value>) -> Value {
        let mut schema = self.property(param);
        if param.check.takes_every_text() {
            schema = match schema.get("default") {
                Some(Value::String(default)) => json!({ "type": "string", "default": default }),
                _ => json!({ "type": "string" }),
            };
        }
        let mut parameter =
            json!({ "name": param.name(), "in": "query", "required": param.default().is_none() });
        if param.check.is_structured() && !param.check.takes_every_text() {
            parameter["content"] = json!({ "application/json": { "schema": schema } });
        } else {
            parameter["schema"] = schema;
        }
        if let Some(example) = example {
            parameter["example"] = example.clone();
        }
        described(parameter, param.desc.as_deref())
    }

    /// The schema of a parameter; null takes its default.
    fn property(&self, param: &Parameter) -> Value {
        let mut schema = self.schema(&param.check);
        if let Some(default) = param.default() {
            schema = nullable(schema);
            // some generators take what has a default for required
            if !default.is_null() {
                schema["default"] = default.clone();
            }
        }
        schema
    }

    /// The parameters of a function in a body or a message.
    pub(super) fn params(&self, function: &Function) -> Value {
        let properties = function.params().iter().map(|param| {
            let schema = described(self.property(param), param.desc.as_deref());
            (param.name().to_owned(), schema)
        });
        let required = function.params().iter().filter(|param| param.default().is_none());
        json!({
            "type": "object",
            "properties": properties.collect::<Map<_, _>>(),
            "required": required.map(Parameter::name).collect::<Vec<_>>(),
            "additionalProperties": false,
        })
    }

    /// The message that calls a function.
    pub(super) fn call(&self, name: &str, params: &str, function: &Function) -> Value {
        let required = if function.params().is_empty() { &["f"][..] } else { &["f", "p"] };
        let properties = json!({ "f": { "const": name }, "p": reference(params) });
        json!({ "title": name, "properties": properties, "required": required })
    }

    /// The credentials that a function asks for: with the level as a role, or none.
    fn security(&self, function: &Function) -> Value {
        if self.is_signed() {
            // the signature is in the path
            return json!([]);
        }
        let level = function.seclvl().filter(|level| *level != "Anonymous");
        let is_open = level.is_none() && self.definition.requires("AllowAnonymous");
        let roles: Vec<_> = level.into_iter().collect();
        let schemes = self.front.schemes.iter();
        let schemes = schemes.map(|scheme| json!({ (scheme.to_ascii_lowercase()): roles }));
        is_open.then(|| json!({})).into_iter().chain(schemes).collect()
    }
}

/// The operation that takes messages (FTN3 §1.6).
pub(super) fn message() -> Value {
    let binary =
        json!({ "schema": { "description": "The same, behind four letters: `MPCK`, `CBOR`" } });
    let content = |schema: Value| {
        json!({
            "application/futoin+json": { "schema": schema },
            "application/futoin+msgpack": binary,
            "application/futoin+cbor": binary,
        })
    };
    let mut request = content(reference("Request"));
    request["application/json"] = request["application/futoin+json"].clone();
    let refused = |why: &str| answers::message(why, reference("Error"));
    json!({
        "operationId": "message",
        "summary": "Calls a function by a message",
        "requestBody": { "required": true, "content": request },
        "responses": {
            "200": {
                "description": "The result or the error of the function, or raw data. A function without a \
                    result is answered with no body, unless it fails or `forcersp` is set.",
                "content": content(reference("Response")),
            },
            "403": refused("A page of another site called"),
            "408": { "description": "The message did not come in time" },
            "413": refused("The message is too large for its function; without a body if for all of them"),
            "415": refused("The media type is none of FutoIn"),
        },
        "security": [],
    })
}
