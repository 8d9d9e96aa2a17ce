//! Definitions as TypeScript, for clients in browsers and under Node.js.
//!
//! [`interface`] writes the types of an interface and the functions that call and serve it; [`CLIENT`] is the module
//! beside it that connects. The program `ftn3-typescript` (`cargo install --path engine/futoin` in a checkout) writes both
//! to a folder, which it makes if there is none:
//!
//! ```sh
//! ftn3-typescript ifaces src/api demo.shop:1.0   # src/api/futoin.ts, src/api/demo.shop-1.ts
//! ```
//!
//! It reads files with the names of FTN3, `demo.shop-1.0-iface.json`. A service that is written in Rust types writes them
//! from what its executor has: its `written_interfaces`, each by
//! [`to_json`](crate::typed::Interface::to_json). The modules are ES modules (`"type": "module"`, and
//! `--module nodenext` for `tsc`).
//!
//! ```ts
//! import { HttpConnection, codeOf } from './api/futoin.js';
//! import * as shop from './api/demo.shop-1.js';
//!
//! const calls = shop.client(new HttpConnection('https://shop.example/ftn/'));
//! try {
//!     const { order, total } = await calls.order({ customer: 'ann', items: [{ sku: 'apple', qty: 3 }] });
//! } catch (error) {
//!     switch (codeOf<shop.Errors['order']>(error)) {
//!         case 'OutOfStock': // ..
//!     }
//! }
//! ```
//!
//! A `SocketConnection` calls over a WebSocket (in Node.js from version 22 on), and serves what the server calls of its client
//! (`cx.request().channel().call(..)` in the service). When the WebSocket ends it is opened again, so what belongs to each
//! connection, such as a subscription, is in `opened`:
//!
//! ```ts
//! const opened = async (socket: SocketConnection) => {
//!     events.serve(socket, { sold: async ({ sku, left }) => ({ seen: show(sku, left) }) });
//!     await shop.client(socket).subscribe({ sku: 'apple' });
//! };
//! const socket = await SocketConnection.open('wss://shop.example/ftn/', { opened });
//! ```
//!
//! A function that [emits](Definition::event_type) can be watched over HTTP. With a key a call of a durable one goes on
//! behind its last event when the connection or the server is lost:
//!
//! ```ts
//! for await (const it of shop.events(http).order({ customer: 'ann', items }, { key: crypto.randomUUID() })) {
//!     if (it.type === 'emit') show(it.event);
//!     if (it.type === 'result') paid(it.result.total);
//! }
//! ```
//!
//! Each call takes a signal that ends the wait for it, and connections take a token:
//!
//! ```ts
//! await calls.order({ customer: 'ann', items }, { signal: AbortSignal.timeout(5_000) });
//! new HttpConnection(url, { headers: () => ({ authorization: `Bearer ${token}` }) });
//! await SocketConnection.open(url, { token: () => token });
//! ```

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use serde_json::{Map, Value};

use crate::iface::{Definition, Function, IfaceVer, Parameter};

/// The module `futoin.ts`, which those of [`interface`] import: connections over HTTP and WebSocket.
pub const CLIENT: &str = include_str!("futoin.ts");

/// The name of the module of an interface, `{iface}-{major}.ts`.
#[must_use]
pub fn file_name(definition: &Definition) -> String {
    format!("{}-{}.ts", definition.iface(), definition.version().major)
}

/// The module of an interface.
///
/// | FTN3 | TypeScript |
/// |---|---|
/// | `boolean`, `integer`, `number`, `string` | `boolean`, `number`, `number`, `string` |
/// | `data` | `string`, in base64 |
/// | `array`, `map` with `elemtype` | `T[]`, `Record<string, T>` |
/// | `map` with `fields` | an object type; an optional field may be null or missing |
/// | `enum`, `set` | its items, a list of them |
/// | a list of types | `A | B` |
/// | `any` | `unknown` |
/// | a parameter with a default | one that may be left out; if the default is null, it may be null |
///
/// Limits (`min`, `maxlen`, `regex`) have no types; the service checks them. A function with `rawupload` or `rawresult`
/// is left out, because it is called by its URL (FTN5 §2).
///
/// ```
/// use asyncsteps_futoin::iface::{Loader, Source};
/// use asyncsteps_futoin::typescript;
///
/// let ping = Loader::new([Source::builtin()]).load(&"futoin.anonping:1.0".parse()?)?;
/// assert_eq!(typescript::file_name(&ping), "futoin.anonping-1.ts");
/// let text = typescript::interface(&ping);
/// assert!(text.contains("ping(params: { echo: number }): Promise<{ echo: number }>;"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn interface(definition: &Definition) -> String {
    let mut text = String::new();
    // writing to a `String` does not fail
    let _ = write(definition, &mut text);
    text
}

fn write(definition: &Definition, text: &mut String) -> fmt::Result {
    let id = definition.id();
    writeln!(
        text,
        "// The interface {id}: written by ftn3-typescript, to be written again rather than edited."
    )?;
    let emits: Vec<_> = definition.functions().filter_map(|it| emitted(definition, it)).collect();
    let of_events = if emits.is_empty() { "" } else { ", HttpConnection, Watching" };
    writeln!(
        text,
        "\nimport type {{ Called, Connection, SocketConnection{of_events} }} from './futoin.js';\n"
    )?;
    let types = Types(definition.types().collect());
    for (name, kind) in &types.0 {
        writeln!(text, "export type {} = {};", type_name(name), types.declared(kind))?;
    }
    let is_called = |function: &&Function| !function.rawupload() && !function.rawresult();
    let functions: Vec<_> =
        definition.functions().map(|it| it.as_ref()).filter(is_called).collect();
    writeln!(text, "\n/** Its functions. */\nexport interface Functions {{")?;
    for function in &functions {
        let result = types.result(function);
        writeln!(text, "    {}({}): Promise<{result}>;", function.name(), types.params(function))?;
    }
    writeln!(
        text,
        "}}\n\n/** The errors that each function declares. */\nexport interface Errors {{"
    )?;
    for function in &functions {
        let errors: Vec<_> = function.errors().map(|code| format!("'{code}'")).collect();
        let errors = if errors.is_empty() { "never".to_owned() } else { errors.join(" | ") };
        writeln!(text, "    {}: {errors};", function.name())?;
    }
    writeln!(text, "}}\n\n/** Calls {id}. */")?;
    writeln!(text, "export const client = (connection: Connection): Called<Functions> => ({{")?;
    for function in &functions {
        writeln!(text, "{}", made("call", id, function))?;
    }
    if !emits.is_empty() {
        writeln!(
            text,
            "}});\n\n/** What functions emit while they run. */\nexport interface Events {{"
        )?;
        for (function, event) in &emits {
            writeln!(text, "    {}: {};", function.name(), type_name(event))?;
        }
        writeln!(text, "}}\n\n/** Calls {id}, with the events of each call. */")?;
        let type_ = "Watching<Functions, Events>";
        writeln!(text, "export const events = (connection: HttpConnection): {type_} => ({{")?;
        for (function, _) in &emits {
            writeln!(text, "{}", made("events", id, function))?;
        }
    }
    writeln!(text, "}});\n\n/** Serves {id} to the other end of a connection. */")?;
    writeln!(
        text,
        "export const serve = (connection: SocketConnection, functions: Functions): void =>"
    )?;
    writeln!(text, "    connection.serve('{id}', functions);")
}

/// A function with its type of events, if it emits some.
fn emitted<'a>(definition: &'a Definition, it: &'a Function) -> Option<(&'a Function, &'a str)> {
    let is_called = !it.rawupload() && !it.rawresult();
    definition.event_type(it.name()).filter(|_| is_called).map(|event| (it, event))
}

/// The entry that makes a call by this method of a connection.
fn made(method: &str, id: &IfaceVer, function: &Function) -> String {
    let name = function.name();
    let (taken, sent) = match function.params() {
        [] => ("", "{}"),
        params if has_required(params) => ("params, ", "params"),
        _ => ("params, ", "params ?? {}"),
    };
    format!("    {name}: ({taken}options) => connection.{method}('{id}:{name}', {sent}, options),")
}

/// The custom types of a definition, by name.
struct Types<'a>(BTreeMap<&'a str, &'a Value>);

impl Types<'_> {
    fn params(&self, function: &Function) -> String {
        if function.params().is_empty() {
            return String::new();
        }
        let fields = function.params().iter().map(|param| {
            let kind = self.used(param.type_name());
            match param.default() {
                None => format!("{}: {kind}", param.name()),
                Some(Value::Null) => format!("{}?: {} | null", param.name(), kind),
                Some(_) => format!("{}?: {kind}", param.name()),
            }
        });
        let mark = if has_required(function.params()) { "" } else { "?" };
        format!("params{mark}: {}", object(fields))
    }

    fn result(&self, function: &Function) -> String {
        match function.result_type() {
            None => "void".to_owned(),
            Some(Value::Object(variables)) => self.fields(variables),
            Some(whole) => self.used(whole),
        }
    }

    /// A type where it is used: a name, or a list of names (FTN3 §1.8.4).
    fn used(&self, kind: &Value) -> String {
        match kind {
            Value::String(name) => used_name(name),
            Value::Array(kinds) => {
                let kinds: Vec<_> = kinds.iter().map(|kind| self.used(kind)).collect();
                kinds.join(" | ")
            }
            Value::Object(_) => self.declared(kind),
            Value::Null | Value::Bool(_) | Value::Number(_) => "unknown".to_owned(),
        }
    }

    /// A type as an entry of `types` or a field writes it (FTN3 §1.8.1).
    fn declared(&self, kind: &Value) -> String {
        let Value::Object(declared) = kind else { return self.used(kind) };
        let base = declared.get("type").unwrap_or(&Value::Null);
        let of = |name: &str| declared.get(name);
        match (
            self.root(base),
            of("elemtype"),
            of("fields").and_then(Value::as_object),
            of("items"),
        ) {
            ("array", Some(element), ..) => format!("{}[]", grouped(self.used(element))),
            ("map", Some(element), ..) => format!("Record<string, {}>", self.used(element)),
            ("map", _, Some(fields), _) if base == "map" => self.fields(fields),
            ("map", _, Some(fields), _) => format!("{} & {}", self.used(base), self.fields(fields)),
            ("enum", .., Some(Value::Array(items))) => literals(items),
            ("set", .., Some(Value::Array(items))) => format!("({})[]", literals(items)),
            _ => self.used(base),
        }
    }

    /// The standard type that a type is made of.
    fn root<'b>(&'b self, kind: &'b Value) -> &'b str {
        let mut kind = kind;
        // a definition has no circle of types
        while let Some(base) = kind.as_str().and_then(|name| self.0.get(name)) {
            kind = base.get("type").unwrap_or(base);
        }
        kind.as_str().unwrap_or_default()
    }

    fn fields(&self, fields: &Map<String, Value>) -> String {
        object(fields.iter().map(|(name, field)| {
            let is_optional = field.get("optional").is_some_and(|it| it == true);
            let kind = self.used(field.get("type").unwrap_or(field));
            if is_optional { format!("{name}?: {kind} | null") } else { format!("{name}: {kind}") }
        }))
    }
}

fn has_required(params: &[Parameter]) -> bool {
    params.iter().any(|param| param.default().is_none())
}

fn object(fields: impl Iterator<Item = String>) -> String {
    let fields: Vec<_> = fields.collect();
    if fields.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", fields.join("; ")) }
}

/// A type of which there is a list.
fn grouped(kind: String) -> String {
    if kind.contains(' ') { format!("({kind})") } else { kind }
}

fn literals(items: &[Value]) -> String {
    let items: Vec<_> = items.iter().map(Value::to_string).collect();
    items.join(" | ")
}

fn used_name(name: &str) -> String {
    match name {
        "boolean" | "number" | "string" => name.to_owned(),
        "integer" => "number".to_owned(),
        "data" => "string".to_owned(),
        "array" | "set" => "unknown[]".to_owned(),
        "map" => "Record<string, unknown>".to_owned(),
        "any" | "enum" => "unknown".to_owned(),
        custom => type_name(custom),
    }
}

/// A custom type, unless the module uses the name itself.
fn type_name(name: &str) -> String {
    let is_taken = matches!(
        name,
        "Called"
            | "Connection"
            | "Errors"
            | "Events"
            | "Functions"
            | "HttpConnection"
            | "Promise"
            | "Record"
            | "SocketConnection"
            | "Watching"
    );
    if is_taken { format!("{name}_") } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::iface::{Loader, Source};

    #[test]
    fn each_type_has_a_form() {
        let text = r#"{
            "iface": "a.b", "version": "1.7", "ftn3rev": "1.9",
            "types": {
                "Name": { "type": "string", "maxlen": 9 },
                "Id": [ "integer", "Name" ],
                "Ids": { "type": "array", "elemtype": "Id" },
                "Pairs": { "type": "array", "elemtype": "Pair" },
                "Pair": { "type": "map", "fields": { "k": "Name", "v": { "type": "any", "optional": true } } },
                "Triple": { "type": "Pair", "fields": { "w": [ "boolean", "Id" ] } },
                "SomeEvent": "Color",
                "ByName": { "type": "map", "elemtype": "Ids" },
                "Color": { "type": "enum", "items": [ "red", "it's", 7 ] },
                "Colors": { "type": "set", "items": [ "red", 7 ] },
                "Promise": { "type": "data" }
            },
            "funcs": {
                "none": {},
                "some": { "params": { "a": "Id", "b": { "type": "Ids", "default": null } }, "result": "Triple",
                          "throws": [ "First", "SECOND" ] },
                "open": { "params": { "a": { "type": "number", "default": 1 } }, "result": { "p": "Promise", "m": "map" } },
                "raw": { "rawresult": true }
            }
        }"#;
        let source = Source::texts([("a.b-1.7-iface.json", text)]);
        let definition = Loader::new([source]).load(&"a.b:1.7".parse().unwrap()).unwrap();
        assert_eq!(file_name(&definition), "a.b-1.ts");
        expect![[r#"
            // The interface a.b:1.7: written by ftn3-typescript, to be written again rather than edited.

            import type { Called, Connection, SocketConnection, HttpConnection, Watching } from './futoin.js';

            export type ByName = Record<string, Ids>;
            export type Color = "red" | "it's" | 7;
            export type Colors = ("red" | 7)[];
            export type Id = number | Name;
            export type Ids = Id[];
            export type Name = string;
            export type Pair = { k: Name; v?: unknown | null };
            export type Pairs = Pair[];
            export type Promise_ = string;
            export type SomeEvent = Color;
            export type Triple = Pair & { w: boolean | Id };

            /** Its functions. */
            export interface Functions {
                none(): Promise<void>;
                open(params?: { a?: number }): Promise<{ m: Record<string, unknown>; p: Promise_ }>;
                some(params: { a: Id; b?: Ids | null }): Promise<Triple>;
            }

            /** The errors that each function declares. */
            export interface Errors {
                none: never;
                open: never;
                some: 'First' | 'SECOND';
            }

            /** Calls a.b:1.7. */
            export const client = (connection: Connection): Called<Functions> => ({
                none: (options) => connection.call('a.b:1.7:none', {}, options),
                open: (params, options) => connection.call('a.b:1.7:open', params ?? {}, options),
                some: (params, options) => connection.call('a.b:1.7:some', params, options),
            });

            /** What functions emit while they run. */
            export interface Events {
                some: SomeEvent;
            }

            /** Calls a.b:1.7, with the events of each call. */
            export const events = (connection: HttpConnection): Watching<Functions, Events> => ({
                some: (params, options) => connection.events('a.b:1.7:some', params, options),
            });

            /** Serves a.b:1.7 to the other end of a connection. */
            export const serve = (connection: SocketConnection, functions: Functions): void =>
                connection.serve('a.b:1.7', functions);
        "#]].assert_eq(&interface(&definition));
    }
}
