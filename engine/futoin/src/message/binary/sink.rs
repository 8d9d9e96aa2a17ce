//! Values written according to their declared types.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Number, Value};

use crate::iface::{DeclaredType, Function};

/// Writes a message in a binary coding.
pub(crate) trait Sink {
    fn null(&mut self);
    fn bool(&mut self, flag: bool);
    fn number(&mut self, number: &Number);
    fn text(&mut self, text: &str);
    fn bytes(&mut self, bytes: &[u8]);
    /// Begins a list of `length` items, which follow.
    fn list(&mut self, length: usize);
    /// Begins a map of `length` pairs, which follow.
    fn map(&mut self, length: usize);
}

/// Writes a value; base64 text becomes a byte string where the type is `data`.
pub(crate) fn write(sink: &mut impl Sink, value: &Value, declared: Option<DeclaredType<'_>>) {
    let declared = declared.and_then(|declared| declared.chosen(value));
    match value {
        Value::Null => sink.null(),
        Value::Bool(flag) => sink.bool(*flag),
        Value::Number(number) => sink.number(number),
        Value::String(text) => match data(text, declared) {
            Some(bytes) => sink.bytes(&bytes),
            None => sink.text(text),
        },
        Value::Array(items) => {
            sink.list(items.len());
            let element = declared.and_then(DeclaredType::element);
            items.iter().for_each(|item| write(sink, item, element));
        }
        Value::Object(map) => {
            sink.map(map.len());
            for (name, item) in map {
                sink.text(name);
                write(sink, item, declared.and_then(|declared| declared.field(name)));
            }
        }
    }
}

/// Writes the result of `function`.
pub(crate) fn write_result(sink: &mut impl Sink, result: &Value, function: Option<&Function>) {
    let Value::Object(variables) = result else {
        return write(sink, result, function.and_then(Function::declared_result));
    };
    let Some(function) = function.filter(|function| function.declared_result().is_none()) else {
        return write(sink, result, function.and_then(Function::declared_result));
    };
    sink.map(variables.len());
    for (name, value) in variables {
        sink.text(name);
        write(sink, value, function.declared_variable(name));
    }
}

/// The bytes that a text encodes if its type is `data`.
pub(crate) fn data(text: &str, declared: Option<DeclaredType<'_>>) -> Option<Vec<u8>> {
    declared.filter(|declared| declared.is_data()).and_then(|_| STANDARD.decode(text).ok())
}
