//! Definitions as an OpenAPI 3.1 document: what they accept over HTTP (FTN5), for tools that do not
//! know FutoIn.
//!
//! Each function is an operation at its URL, and one more operation takes messages. What HTTP cannot
//! call is left out: interfaces that require `BiDirectChannel`, and, at URLs, those that require `BinaryData`.
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
    A function has a URL, with its parameters in the query: text as it is, other values as JSON, each at most once. \
    `POST` to the path above the functions takes messages, which name a function: also under a lower minor \
    version, or under the name of an interface that it inherits. A WebSocket there carries messages in both directions. \
    Credentials may be in a message (`sec`) or in one more part of the URL: `user:password` or a signature (FTN8). \
    The roles of security requirements are security levels (FTN8): Info, SafeOps, PrivilegedOps, ExceptionalOps; \
    a caller needs the level that is named or a higher one. \
    A function may answer a success with another status than 200. \
    Lengths of strings are in UTF-16 units.";

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
}

/// Writes an OpenAPI 3.1 document, whose schemas are JSON Schema 2020-12.
///
/// A value fits a schema if it passes the check of the definition, but for lengths of strings with
/// characters beyond U+FFFF: they are in UTF-16 units.
#[must_use]
pub fn document(definitions: &[Arc<Definition>], front: &HttpFront<'_>) -> Value {
    let (mut schemas, mut paths, mut calls) = (answers::schemas(), Map::new(), Vec::new());
    let mut tags = Vec::new();
    for definition in definitions.iter().filter(|it| !it.requires("BiDirectChannel")) {
        let interface = Interface::new(front, definition);
        for (name, custom) in &definition.types {
            let refer = |check: &Arc<Check>| interface.reference(check);
            let schema = described(custom.check.json_schema(&refer), custom.desc.as_deref());
            schemas.insert(interface.key(name), schema);
        }
        for function in definition.functions() {
            let (name, methods) = interface.served(function);
            if methods.is_empty() {
                continue;
            }
            let params = format!("{}.params", function.name());
            calls.push(interface.call(&name, &params, function));
            schemas.insert(interface.key(&params), interface.params(function));
            if !definition.requires("BinaryData") {
                let path = interface.path(function);
                paths.insert(path, interface.operations(&name, methods, function));
            }
        }
        tags.push(described(
            json!({ "name": definition.id().to_string() }),
            definition.desc.as_deref(),
        ));
    }
    // a list of no alternatives is no schema
    let call = if calls.is_empty() { json!({ "not": {} }) } else { json!({ "oneOf": calls }) };
    schemas.insert("Call".to_owned(), call);
    paths.insert(front.path.to_owned(), json!({ "post": operation::message() }));
    let schemes = front.schemes.iter().map(|scheme| {
        let scheme = scheme.to_ascii_lowercase();
        (scheme.clone(), json!({ "type": "http", "scheme": scheme }))
    });
    json!({
        "openapi": "3.1.0",
        "info": { "title": front.title, "version": front.version, "description": ABOUT },
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
    /// The names of custom types, by the checkers that their references share.
    names: BTreeMap<*const Check, &'a str>,
}

impl<'a> Interface<'a> {
    fn new(front: &'a HttpFront<'a>, definition: &'a Definition) -> Self {
        let types = definition.types.iter();
        let names = types.map(|(name, custom)| (Arc::as_ptr(&custom.check), name.as_ref()));
        Self { front, definition, names: names.collect() }
    }

    /// The key of a component of this interface.
    fn key(&self, name: &str) -> String {
        format!("{}-{}.{name}", self.definition.iface(), self.definition.version())
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
        let front = HttpFront {
            title: "All",
            version: "3",
            path: "/ftn/",
            methods: &|name| if is_read(name) { &["get", "post"] } else { &["post"] },
            schemes: &["Basic", "Bearer"],
            problem_status,
        };
        document(&definitions(), &front)
    }

    /// The operations of a document, without what all of them have.
    fn operations(document: &Value) -> String {
        let mut out = String::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                writeln!(out, "{method} {path} {}", operation["security"]).unwrap();
                writeln!(out, "    {}", operation["description"]).unwrap();
                for parameter in operation["parameters"].as_array().into_iter().flatten() {
                    writeln!(out, "    {parameter}").unwrap();
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
            post /ftn/ []
                null
                200 "The result or the error of the function, or raw data. A function without a result is answered with no body, unless it fails or `forcersp` is set." ["application/futoin+cbor", "application/futoin+json", "application/futoin+msgpack"]
                403 "A page of another site called" ["application/futoin+json"]
                408 "The message did not come in time" []
                413 "The message is too large for its function; without a body if for all of them" ["application/futoin+json"]
                415 "The media type is none of FutoIn" ["application/futoin+json"]
            post /ftn/a.open/1.2/pay [{"basic":["SafeOps"]},{"bearer":["SafeOps"]}]
                "At most 65536 bytes of path and query or of a message, and 65536 of its answer."
                200 "The result or an error" ["application/futoin+json"]
                403 "A page of another site called" ["application/futoin+json"]
                431 "The path and the query are too large; without a body if they are with the headers" ["application/futoin+json"]
            post /ftn/a.open/1.2/pipe [{},{"basic":[]},{"bearer":[]}]
                "Its result is raw data, whose status and headers it may set. It takes raw data of any size and media type. It may take long. At most 2048 bytes of path and query or of a message, and 65536 of its answer."
                {"content":{"application/json":{"schema":{"type":"array"}}},"in":"query","name":"list","required":false}
                200 "The result or an error" ["*/*", "application/futoin+json"]
                403 "A page of another site called" ["application/futoin+json"]
                431 "The path and the query are too large; without a body if they are with the headers" ["application/futoin+json"]
            get /ftn/a.open/1.2/tell [{},{"basic":[]},{"bearer":[]}]
                "Its success has no body. At most 65536 bytes of path and query or of a message, and 65536 of its answer."
                {"in":"query","name":"text","required":false,"schema":{"default":"hi","type":"string"}}
                {"in":"query","name":"to","required":true,"schema":{"$ref":"#/components/schemas/a.open-1.2.Name"}}
                200 "The result or an error" ["application/futoin+json"]
                403 "A page of another site called" ["application/futoin+json"]
                431 "The path and the query are too large; without a body if they are with the headers" ["application/futoin+json"]
            post /ftn/a.open/1.2/tell [{},{"basic":[]},{"bearer":[]}]
                "Its success has no body. At most 65536 bytes of path and query or of a message, and 65536 of its answer."
                {"in":"query","name":"text","required":false,"schema":{"default":"hi","type":"string"}}
                {"in":"query","name":"to","required":true,"schema":{"$ref":"#/components/schemas/a.open-1.2.Name"}}
                200 "The result or an error" ["application/futoin+json"]
                403 "A page of another site called" ["application/futoin+json"]
                431 "The path and the query are too large; without a body if they are with the headers" ["application/futoin+json"]
            post /ftn/a.signed/1.2/hello/{sec} []
                "It is answered over a secure channel only. Its request is signed. At most 65536 bytes of path and query or of a message, and 65536 of its answer."
                {"description":"`-smac:user:ALGORITHM:base64`, the signature of the request (FTN8.1)","in":"path","name":"sec","required":true,"schema":{"type":"string"}}
                200 "The result or an error" ["application/futoin+json"]
                403 "A page of another site called" ["application/futoin+json"]
                431 "The path and the query are too large; without a body if they are with the headers" ["application/futoin+json"]
        "##]].assert_eq(&operations(&described(None)));
    }

    #[test]
    fn problems_are_listed_by_status() {
        let status = |code: &str| if matches!(code, "Broken" | "Poor") { 422 } else { 400 };
        let document = described(Some(&status));
        let responses = &document["paths"]["/ftn/a.open/1.2/pay"]["post"]["responses"];
        let codes = |status: &str| {
            let content = &responses[status]["content"]["application/problem+json"];
            content["schema"]["allOf"][1]["properties"]["code"]["enum"].to_string()
        };
        expect![[r#"["Poor"]"#]].assert_eq(&codes("422"));
        expect![[r#"["InvalidRequest","SecurityError","PleaseReauth","Unauthorized","DefenseRejected","InternalError"]"#]].assert_eq(&codes("400"));
        let result =
            &responses["200"]["content"]["application/futoin+json"]["schema"]["properties"]["r"];
        expect![[r#"{"additionalProperties":false,"properties":{"paid":{"type":"boolean"}},"required":["paid"],"type":"object"}"#]].assert_eq(&result.to_string());
    }

    #[test]
    fn schemas_are_shared_and_described() {
        let document = described(None);
        let schemas = &document["components"]["schemas"];
        expect![[r#"{"description":"As they say it","minLength":1,"type":"string"}"#]]
            .assert_eq(&schemas["a.open-1.2.Name"].to_string());
        expect![[r##"{"additionalProperties":false,"properties":{"text":{"default":"hi"},"to":{"$ref":"#/components/schemas/a.open-1.2.Name"}},"required":["to"],"type":"object"}"##]].assert_eq(&schemas["a.open-1.2.tell.params"].to_string());
        expect![[r##"{"properties":{"f":{"const":"a.open:1.2:pay"},"p":{"$ref":"#/components/schemas/a.open-1.2.pay.params"}},"required":["f"],"title":"a.open:1.2:pay"}"##]].assert_eq(&schemas["Call"]["oneOf"][0].to_string());
        let called = schemas["Call"]["oneOf"].as_array().unwrap().iter().map(|it| &it["title"]);
        let called: Vec<_> = called.filter_map(Value::as_str).collect();
        // what needs calls in both directions is not called over HTTP
        assert_eq!(called.last(), Some(&"a.binary:1.2:hello"));
    }
}
