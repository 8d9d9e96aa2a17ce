//! Definitions as an OpenAPI 3.1 document: what they accept over HTTP (FTN5), for tools that do not
//! know FutoIn.
//!
//! Each function is an operation at its URL: POST with its parameters as a JSON object, GET with them in the query. One
//! more operation takes messages. What HTTP cannot call is left out: interfaces that require `BiDirectChannel`, and, at
//! URLs, those that require `BinaryData`.
//!
//! Operations and schemas are named after interfaces and functions, as generators of clients name theirs: the function
//! `order` of `demo.shop:1.0` is `demoShop_order`, and by GET `demoShop_order_get`; its parameters are
//! `demoShop.order.params`, and a type is `demoShop.Sku`. In another major version than the first the interface is
//! `demoShop_2`.
//!
//! ```
//! use asyncsteps_futoin::iface::{Loader, Source};
//! use asyncsteps_futoin::openapi::{HttpFront, document};
//!
//! let ping = Loader::new([Source::builtin()]).load(&"futoin.anonping:1.0".parse()?)?;
//! let front = HttpFront {
//!     title: "Ping",
//!     version: "1.0",
//!     path: "/ftn/",
//!     methods: &|_| &["get", "post"],
//!     schemes: &["Basic"],
//!     problem_status: None,
//!     messages: false,
//!     examples: &Default::default(),
//! };
//! let document = document(&[ping], &front);
//! let operation = &document["paths"]["/ftn/futoin.anonping/1.0/ping"]["get"];
//! assert_eq!(operation["parameters"][0]["schema"], serde_json::json!({
//!     "type": "integer", "minimum": i32::MIN, "maximum": i32::MAX,
//! }));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answers;
mod operation;
mod tool;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::iface::{Check, Definition, Function, FunctionName};

pub use tool::tool_schemas;

/// What every document says of its schemas.
const ABOUT: &str = "Made from definitions of FutoIn (FTN3), called over HTTP (FTN5). \
    A function has a URL. POST takes its parameters as a JSON object, and GET in the query: text as it is, other values \
    as JSON, each at most once. POST takes parameters in the query too. \
    The roles of security requirements are security levels (FTN8): Info, SafeOps, PrivilegedOps, ExceptionalOps; \
    a caller needs the level that is named or a higher one. Credentials may also be in one more part of the URL: \
    `user:password` or a signature (FTN8). \
    A function may answer a success with another status than 200. \
    Lengths of strings are in UTF-16 units.";

/// What a document with messages says of them.
const ABOUT_MESSAGES: &str = " POST to the path above the functions takes messages, which name a function: also under a \
    lower minor version, or under the name of an interface that it inherits. A WebSocket there carries messages in \
    both directions. Credentials may be in a message (`sec`).";

/// The HTTP server that a document describes.
#[derive(derive_more::Debug)]
#[expect(clippy::exhaustive_structs, reason = "who describes a server must know all of it")]
pub struct HttpFront<'a> {
    /// The name of the service, for people.
    pub title: &'a str,
    /// The version of the service.
    pub version: &'a str,
    /// The path of messages, such as `/ftn/`; the URLs of functions are below it.
    pub path: &'a str,
    /// The methods by which the URL of a function is called: `post`, `get`. Without one the function is
    /// left out.
    #[debug(skip)]
    pub methods: &'a dyn Fn(&FunctionName) -> &'static [&'static str],
    /// The schemes of `Authorization` headers, such as `Basic` and `Bearer`.
    pub schemes: &'a [&'a str],
    /// The HTTP status of an error code, if calls by URL are answered with problem details (RFC 9457);
    /// otherwise errors are messages with the status 200 (FTN5).
    #[debug(skip)]
    pub problem_status: Option<&'a dyn Fn(&str) -> u16>,
    /// Whether the operation that takes messages is described too.
    pub messages: bool,
    /// Parameters of functions as examples, by the full names of the functions.
    pub examples: &'a BTreeMap<String, Value>,
}

/// Writes an OpenAPI 3.1 document, whose schemas are JSON Schema 2020-12.
///
/// A value fits a schema if it passes the check of the definition, but for lengths of strings with
/// characters beyond U+FFFF: they are in UTF-16 units.
#[must_use]
pub fn document(definitions: &[Arc<Definition>], front: &HttpFront<'_>) -> Value {
    let (mut schemas, mut paths, mut calls) = (Map::new(), Map::new(), Vec::new());
    let mut tags = Vec::new();
    for definition in definitions.iter().filter(|it| !it.requires("BiDirectChannel")) {
        let interface = Interface::new(front, definition);
        let functions = definition.functions().map(|it| (it, interface.served(it)));
        let functions: Vec<_> = functions.filter(|(_, served)| !served.1.is_empty()).collect();
        if functions.is_empty() {
            continue;
        }
        for (name, custom) in &definition.types {
            let refer = |check: &Arc<Check>| interface.reference(check);
            let schema = described(custom.check.json_schema(&refer), custom.desc.as_deref());
            schemas.insert(interface.key(name), schema);
        }
        for (function, (name, methods)) in functions {
            let params = interface.key(&format!("{}.params", function.name()));
            calls.push(interface.call(&name, &params, function));
            if front.messages || !function.params().is_empty() {
                schemas.insert(params, interface.params(function));
            }
            if !definition.requires("BinaryData") {
                let operations = interface.operations(&name, methods, function, &mut schemas);
                paths.insert(interface.path(function), operations);
            }
        }
        tags.push(described(json!({ "name": definition.iface() }), definition.desc.as_deref()));
    }
    tags.dedup_by(|one, other| one["name"] == other["name"]);
    schemas.extend(answers::messages(front, calls));
    let mut about = ABOUT.to_owned();
    if front.messages {
        about += ABOUT_MESSAGES;
        paths.insert(front.path.to_owned(), json!({ "post": operation::message() }));
    }
    let schemes = front.schemes.iter().map(|scheme| {
        let scheme = scheme.to_ascii_lowercase();
        (scheme.clone(), json!({ "type": "http", "scheme": scheme }))
    });
    json!({
        "openapi": "3.1.0",
        "info": { "title": front.title, "version": front.version, "description": about },
        "servers": [{ "url": "/" }],
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": schemes.collect::<Map<_, _>>(),
        },
    })
}

/// An interface in a document.
struct Interface<'a> {
    front: &'a HttpFront<'a>,
    definition: &'a Definition,
    name: String,
    /// The names of custom types, by the checkers that their references share.
    names: BTreeMap<*const Check, &'a str>,
}

impl<'a> Interface<'a> {
    fn new(front: &'a HttpFront<'a>, definition: &'a Definition) -> Self {
        let types = definition.types.iter();
        let names = types.map(|(name, custom)| (Arc::as_ptr(&custom.check), name.as_ref()));
        let name = interface_name(definition.iface(), definition.version().major);
        Self { front, definition, name, names: names.collect() }
    }

    /// The key of a component of this interface.
    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.name)
    }

    fn reference(&self, check: &Arc<Check>) -> Option<Value> {
        self.names.get(&Arc::as_ptr(check)).map(|name| reference(&self.key(name)))
    }

    /// The schema of a type where it is used.
    fn schema(&self, check: &Arc<Check>) -> Value {
        Check::schema_of(check, &|check| self.reference(check))
    }

    /// The full name of a function, and the methods by which its URL is called.
    fn served(&self, function: &Function) -> (String, &'static [&'static str]) {
        let name = format!("{}:{}", self.definition.id(), function.name());
        let methods = name.parse().map_or(&[][..], |name| (self.front.methods)(&name));
        (name, methods)
    }
}

/// The name of an interface in names of operations and schemas, with the major version unless it is the first. No other
/// interface has the same: parts of names begin with letters, and these are lower-case (FTN3 §2.2.1).
fn interface_name(iface: &str, major: u32) -> String {
    let mut name = String::new();
    for part in iface.split('.') {
        let (first, rest) = part.split_at(part.len().min(1));
        name += &if name.is_empty() { first.to_owned() } else { first.to_uppercase() };
        name += rest;
    }
    if major == 1 { name } else { format!("{name}_{major}") }
}

/// The reference to a schema.
fn reference(key: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{key}") })
}

/// The same with a text for people, if there is one.
fn described(mut object: Value, desc: Option<&str>) -> Value {
    if let Some(desc) = desc {
        object["description"] = desc.into();
    }
    object
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use expect_test::expect;

    use super::*;
    use crate::iface::{Loader, Source};

    fn definitions() -> Vec<Arc<Definition>> {
        let funcs = json!({
            "tell": { "params": { "to": "Name", "text": { "type": "any", "default": "hi" } },
                "desc": "Says it to them" },
            "pipe": { "params": { "list": { "type": "array", "default": null } }, "rawupload": true,
                "rawresult": true, "heavy": true, "maxreqsize": "2K", "throws": ["Broken"] },
            "pay": { "result": { "paid": "boolean" }, "seclvl": "SafeOps", "throws": ["Poor"] },
        });
        let types = json!({ "Name": { "type": "string", "minlen": 1, "desc": "As they say it" } });
        let iface = |name: &str, requires: &[&str], funcs: &Value| {
            let file = json!({
                "iface": name, "version": "1.2", "ftn3rev": "1.9", "types": types, "funcs": funcs,
                "requires": requires,
            });
            (format!("{name}-1.2-iface.json"), file.to_string())
        };
        let hello = json!({ "hello": { "result": "Name" } });
        let files = [
            iface("a.open", &["AllowAnonymous"], &funcs),
            iface("a.signed", &["MessageSignature", "SecureChannel"], &hello),
            iface("a.binary", &["BinaryData"], &hello),
            iface("a.both", &["BiDirectChannel"], &hello),
        ];
        let mut loader = Loader::new([Source::texts(files)]);
        let names = ["a.open", "a.signed", "a.binary", "a.both"];
        names.map(|name| loader.load(&format!("{name}:1.2").parse().unwrap()).unwrap()).into()
    }

    fn described(problem_status: Option<&dyn Fn(&str) -> u16>) -> Value {
        let is_read = |name: &FunctionName| name.func() == "tell";
        let example = ("a.open:1.2:tell".to_owned(), json!({ "to": "ann" }));
        let front = HttpFront {
            title: "All",
            version: "3",
            path: "/ftn/",
            methods: &|name| if is_read(name) { &["get", "post"] } else { &["post"] },
            schemes: &["Basic", "Bearer"],
            problem_status,
            messages: problem_status.is_none(),
            examples: &[example].into(),
        };
        document(&definitions(), &front)
    }

    /// The operations of a document, without what all of them have.
    fn operations(document: &Value) -> String {
        let mut out = String::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let id = operation["operationId"].as_str().unwrap();
                writeln!(out, "{method} {path} {id} {}", operation["security"]).unwrap();
                writeln!(out, "    {}", operation["description"]).unwrap();
                for parameter in operation["parameters"].as_array().into_iter().flatten() {
                    writeln!(out, "    {parameter}").unwrap();
                }
                if let Some(body) = operation["requestBody"]["content"].get("application/json") {
                    writeln!(out, "    {} {body}", operation["requestBody"]["required"]).unwrap();
                }
                for (status, response) in operation["responses"].as_object().unwrap() {
                    let content = response["content"].as_object();
                    let media: Vec<_> = content.into_iter().flat_map(Map::keys).collect();
                    writeln!(out, "    {status} {} {media:?}", response["description"]).unwrap();
                }
            }
        }
        out
    }

    #[test]
    fn operations_say_what_is_special_about_functions() {
        expect![[r##"
            post /ftn/ message []
                null
                true {"schema":{"$ref":"#/components/schemas/Request"}}
                200 "The result or the error of the function, or raw data. A function without a result is answered with no body, unless it fails or `forcersp` is set." ["application/futoin+cbor", "application/futoin+json", "application/futoin+msgpack"]
                403 "A page of another site called" ["application/futoin+json"]
                408 "The message did not come in time" []
                413 "The message is too large for its function; without a body if for all of them" ["application/futoin+json"]
                415 "The media type is none of FutoIn" ["application/futoin+json"]
            post /ftn/a.open/1.2/pay aOpen_pay [{"basic":["SafeOps"]},{"bearer":["SafeOps"]}]
                "At most 65536 bytes of path, query and body, and 65536 of its answer."
                200 "The result or an error" ["application/futoin+json"]
                403 "A page of another site called" ["application/futoin+json"]
                431 "The path and the query are too large; without a body if they are with the headers" ["application/futoin+json"]
            post /ftn/a.open/1.2/pipe aOpen_pipe [{},{"basic":[]},{"bearer":[]}]
                "Its result is raw data, whose status and headers it may set. It takes raw data of any size and media type. It may take long. At most 2048 bytes of path, query and body, and 65536 of its answer."
                {"content":{"application/json":{"schema":{"type":["array","null"]}}},"in":"query","name":"list","required":false}
                200 "The result or an error" ["*/*", "application/futoin+json"]
                403 "A page of another site called" ["application/futoin+json"]
                431 "The path and the query are too large; without a body if they are with the headers" ["application/futoin+json"]
            get /ftn/a.open/1.2/tell aOpen_tell_get [{},{"basic":[]},{"bearer":[]}]
                "Its success has no body. At most 65536 bytes of path, query and body, and 65536 of its answer."
                {"in":"query","name":"text","required":false,"schema":{"default":"hi","type":"string"}}
                {"example":"ann","in":"query","name":"to","required":true,"schema":{"$ref":"#/components/schemas/aOpen.Name"}}
                200 "The result or an error" ["application/futoin+json"]
                403 "A page of another site called" ["application/futoin+json"]
                431 "The path and the query are too large; without a body if they are with the headers" ["application/futoin+json"]
            post /ftn/a.open/1.2/tell aOpen_tell [{},{"basic":[]},{"bearer":[]}]
                "Its success has no body. At most 65536 bytes of path, query and body, and 65536 of its answer."
                true {"example":{"to":"ann"},"schema":{"$ref":"#/components/schemas/aOpen.tell.params"}}
                200 "The result or an error" ["application/futoin+json"]
                403 "A page of another site called" ["application/futoin+json"]
                408 "The body did not come in time" []
                413 "The body is too large; without a body if for all functions" ["application/futoin+json"]
                431 "The path and the query are too large; without a body if they are with the headers" ["application/futoin+json"]
            post /ftn/a.signed/1.2/hello/{sec} aSigned_hello []
                "It is answered over a secure channel only. Its request is signed. At most 65536 bytes of path, query and body, and 65536 of its answer."
                {"description":"`-smac:user:ALGORITHM:base64`, the signature of the request (FTN8.1)","in":"path","name":"sec","required":true,"schema":{"type":"string"}}
                200 "The result or an error" ["application/futoin+json"]
                403 "A page of another site called" ["application/futoin+json"]
                431 "The path and the query are too large; without a body if they are with the headers" ["application/futoin+json"]
        "##]].assert_eq(&operations(&described(None)));
    }

    #[test]
    fn problems_are_listed_by_status() {
        let status = |code: &str| match code {
            "Broken" | "Poor" => 422,
            "SecurityError" | "PleaseReauth" => 401,
            _ => 400,
        };
        let document = described(Some(&status));
        let mut out = String::new();
        for path in
            ["a.open/1.2/pay", "a.open/1.2/pipe", "a.open/1.2/tell", "a.signed/1.2/hello/{sec}"]
        {
            let responses = &document["paths"][format!("/ftn/{path}")]["post"]["responses"];
            for (status, response) in responses.as_object().unwrap() {
                let schema = &response["content"]["application/problem+json"]["schema"]["$ref"];
                writeln!(out, "{path} {status} {schema}").unwrap();
            }
        }
        expect![[r##"
            a.open/1.2/pay 200 null
            a.open/1.2/pay 400 "#/components/schemas/InvalidRequestOrUnauthorizedOrDefenseRejectedOrInternalErrorProblem"
            a.open/1.2/pay 401 "#/components/schemas/SecurityErrorOrPleaseReauthProblem"
            a.open/1.2/pay 403 "#/components/schemas/SecurityErrorOrPleaseReauthProblem"
            a.open/1.2/pay 422 "#/components/schemas/PoorProblem"
            a.open/1.2/pay 431 "#/components/schemas/InvalidRequestProblem"
            a.open/1.2/pipe 200 null
            a.open/1.2/pipe 400 "#/components/schemas/InvalidRequestOrUnauthorizedOrDefenseRejectedOrInternalErrorProblem"
            a.open/1.2/pipe 401 "#/components/schemas/SecurityErrorOrPleaseReauthProblem"
            a.open/1.2/pipe 403 "#/components/schemas/SecurityErrorOrPleaseReauthProblem"
            a.open/1.2/pipe 422 "#/components/schemas/BrokenProblem"
            a.open/1.2/pipe 431 "#/components/schemas/InvalidRequestProblem"
            a.open/1.2/tell 200 null
            a.open/1.2/tell 400 "#/components/schemas/InvalidRequestOrUnauthorizedOrDefenseRejectedOrInternalErrorProblem"
            a.open/1.2/tell 401 "#/components/schemas/SecurityErrorOrPleaseReauthProblem"
            a.open/1.2/tell 403 "#/components/schemas/SecurityErrorOrPleaseReauthProblem"
            a.open/1.2/tell 408 "#/components/schemas/InvalidRequestProblem"
            a.open/1.2/tell 413 "#/components/schemas/InvalidRequestProblem"
            a.open/1.2/tell 431 "#/components/schemas/InvalidRequestProblem"
            a.signed/1.2/hello/{sec} 200 null
            a.signed/1.2/hello/{sec} 400 "#/components/schemas/InvalidRequestOrUnauthorizedOrDefenseRejectedOrInternalErrorProblem"
            a.signed/1.2/hello/{sec} 403 "#/components/schemas/SecurityErrorOrPleaseReauthProblem"
            a.signed/1.2/hello/{sec} 431 "#/components/schemas/InvalidRequestProblem"
        "##]].assert_eq(&out);
        let schemas = &document["components"]["schemas"];
        let problem = &schemas["SecurityErrorOrPleaseReauthProblem"]["properties"]["code"];
        expect![[r#"{"enum":["SecurityError","PleaseReauth"],"type":"string"}"#]]
            .assert_eq(&problem.to_string());
        expect![[r#"{"additionalProperties":false,"properties":{"paid":{"type":"boolean"}},"required":["paid"],"type":"object"}"#]].assert_eq(&schemas["aOpen.pay.result"].to_string());
        // what nothing refers to is not there
        assert!(["Call", "Request", "Error"].iter().all(|name| schemas[name].is_null()));
        assert_eq!(document["paths"]["/ftn/"], Value::Null);
    }

    #[test]
    fn schemas_are_shared_and_described() {
        let document = described(None);
        let schemas = &document["components"]["schemas"];
        expect![[r#"{"description":"As they say it","minLength":1,"type":"string"}"#]]
            .assert_eq(&schemas["aOpen.Name"].to_string());
        expect![[r##"{"additionalProperties":false,"properties":{"text":{"default":"hi"},"to":{"$ref":"#/components/schemas/aOpen.Name"}},"required":["to"],"type":"object"}"##]].assert_eq(&schemas["aOpen.tell.params"].to_string());
        expect![[r##"{"properties":{"f":{"const":"a.open:1.2:pay"},"p":{"$ref":"#/components/schemas/aOpen.pay.params"}},"required":["f"],"title":"a.open:1.2:pay"}"##]].assert_eq(&schemas["Call"]["oneOf"][0].to_string());
        let called = schemas["Call"]["oneOf"].as_array().unwrap().iter().map(|it| &it["title"]);
        let called: Vec<_> = called.filter_map(Value::as_str).collect();
        // what needs calls in both directions is not called over HTTP
        assert_eq!(called.last(), Some(&"a.binary:1.2:hello"));
    }

    #[test]
    fn interfaces_have_names_of_their_own() {
        for (iface, major, name) in [
            ("demo.shop", 1, "demoShop"),
            ("demo.shop2", 2, "demoShop2_2"),
            ("a.b.c", 0, "aBC_0"),
            ("a.bc", 1, "aBc"),
        ] {
            assert_eq!(interface_name(iface, major), name);
        }
    }
}
