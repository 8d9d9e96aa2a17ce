//! Definitions for tests, made of JSON values.

use std::fmt::Write;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::definition::Definition;
use super::error::LoadError;
use super::load::Loader;
use super::name::FunctionName;
use super::source::Source;

/// Loads the first of `files`, which can refer to the others.
pub(super) fn load(files: &[Value]) -> Result<Arc<Definition>, LoadError> {
    let field = |file: &Value, name: &str| file[name].as_str().unwrap_or_default().to_owned();
    let id = |file: &Value| format!("{}:{}", field(file, "iface"), field(file, "version"));
    load_texts(files.iter().map(|file| (id(file), file.to_string())))
}

/// The same for pairs of `iface:version` and text, where the order of fields matters.
pub(super) fn load_texts(
    files: impl IntoIterator<Item = (String, String)>,
) -> Result<Arc<Definition>, LoadError> {
    let files: Vec<_> = files.into_iter().collect();
    let first = files[0].0.parse().unwrap();
    let name = |id: String| format!("{}-iface.json", id.replace(':', "-"));
    let files = files.into_iter().map(|(id, text)| (name(id), text));
    Loader::new([Source::texts(files)]).load(&first)
}

/// `a.b:1.0` of the newest revision with more fields.
pub(super) fn iface(more: Value) -> Value {
    named("a.b:1.0", more)
}

/// A definition of the newest revision with more fields, which may also replace `ftn3rev`.
pub(super) fn named(id: &str, more: Value) -> Value {
    let (name, version) = id.split_once(':').unwrap();
    let mut file = json!({"iface": name, "version": version, "ftn3rev": "1.9"});
    file.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    file
}

/// The errors of each of `files` alone, one per line.
pub(super) fn errors(files: impl IntoIterator<Item = Value>) -> String {
    files.into_iter().fold(String::new(), |mut out, file| {
        out += &error(&[file]);
        out
    })
}

/// The error of loading the first of `files`, as a line.
pub(super) fn error(files: &[Value]) -> String {
    let mut out = String::new();
    match load(files) {
        Ok(_) => writeln!(out, "accepted").unwrap(),
        Err(error) => {
            write!(out, "{error}").unwrap();
            let source = std::error::Error::source(&error);
            writeln!(out, "{}", source.map(|s| format!(" ({s})")).unwrap_or_default()).unwrap();
        }
    }
    out
}

/// Checks a call `name:func` and returns the parameters a handler would see, or the refusal.
pub(super) fn call(definition: &Definition, called: &str, params: Value) -> String {
    let called: FunctionName = called.parse().unwrap();
    let function = definition.function(called.func()).unwrap();
    let mut params: Map<String, Value> = params.as_object().unwrap().clone();
    match function.check_params(&called, &mut params) {
        Ok(()) => sorted(Value::Object(params)),
        Err(violation) => format!("{}: {violation}", violation.code()),
    }
}

/// Checks a result and returns the sent text, or the refusal.
pub(super) fn answer(definition: &Definition, function: &str, mut result: Value) -> String {
    match definition.function(function).unwrap().check_result(&mut result) {
        Ok(()) => sorted(result),
        Err(violation) => format!("{}: {violation}", violation.code()),
    }
}

/// JSON with the names of each object sorted, whatever map `serde_json` was built with.
fn sorted(mut value: Value) -> String {
    value.sort_all_objects();
    value.to_string()
}
