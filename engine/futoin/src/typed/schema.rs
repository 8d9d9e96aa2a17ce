//! The values of Rust types, as their JSON schemas (draft 2020-12) describe them.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};

use super::value_type::{Field, Length, Range, ValueType, any_of};
use crate::message::Data;

/// The values that can be read as a `T`.
pub(super) fn read<T: JsonSchema>() -> ValueType {
    values::<T>(SchemaSettings::draft2020_12().for_deserialize())
}

/// The values that are written for a `T`.
pub(super) fn written<T: JsonSchema>() -> ValueType {
    values::<T>(SchemaSettings::draft2020_12().for_serialize())
}

fn values<T: JsonSchema>(settings: SchemaSettings) -> ValueType {
    let root = settings.into_generator().into_root_schema_for::<T>().to_value();
    let types = root.get("$defs").and_then(Value::as_object);
    let title = root.get("title").and_then(Value::as_str).unwrap_or("the type");
    SchemaReader { types, open: Vec::new(), title }.values(&root)
}

/// Reads one schema with its named types.
struct SchemaReader<'a> {
    types: Option<&'a Map<String, Value>>,
    /// The named types around, outermost first.
    open: Vec<&'a str>,
    /// The name of the whole.
    title: &'a str,
}

impl<'a> SchemaReader<'a> {
    fn values(&mut self, schema: &'a Value) -> ValueType {
        // `true` is the schema of any value
        let Some(schema) = schema.as_object() else { return ValueType::Any };
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            return self.named(reference);
        }
        let alternatives = schema.get("anyOf").or_else(|| schema.get("oneOf"));
        if let Some(alternatives) = alternatives.and_then(Value::as_array) {
            let types = alternatives.iter().map(|one| self.values(one)).collect();
            return merged(types);
        }
        if let Some(constant) = schema.get("const") {
            return one_of(vec![constant.clone()]);
        }
        if let Some(items) = schema.get("enum").and_then(Value::as_array) {
            return one_of(items.clone());
        }
        match schema.get("type") {
            Some(Value::String(name)) => self.of_type(name, schema),
            Some(Value::Array(names)) => {
                let names = names.iter().filter_map(Value::as_str);
                any_of(names.map(|name| self.of_type(name, schema)).collect())
            }
            _ => ValueType::Any,
        }
    }

    fn named(&mut self, reference: &'a str) -> ValueType {
        let name = reference.rsplit('/').next().unwrap_or(reference);
        if self.open.contains(&name) {
            return ValueType::Recursive(name.to_owned());
        }
        let Some(schema) = self.types.and_then(|types| types.get(name)) else {
            // `#`, the whole
            return ValueType::Recursive(self.title.to_owned());
        };
        self.open.push(name);
        let values = self.values(schema);
        self.open.pop();
        ValueType::Named(name.to_owned(), Box::new(values))
    }

    fn of_type(&mut self, name: &str, schema: &'a Map<String, Value>) -> ValueType {
        match name {
            "null" => ValueType::Null,
            "boolean" => ValueType::Boolean,
            "integer" => ValueType::Integer(range(schema, of_format(schema))),
            "number" => ValueType::Number(range(schema, Range::ALL)),
            "string" if schema.contains_key("contentEncoding") => ValueType::Data(Length::ALL),
            "string" => ValueType::Text {
                length: length(schema, "minLength", "maxLength"),
                pattern: schema.get("pattern").and_then(Value::as_str).map(str::to_owned),
            },
            "array" => self.list(schema),
            "object" => self.map(schema),
            _ => ValueType::Any,
        }
    }

    fn list(&mut self, schema: &'a Map<String, Value>) -> ValueType {
        let element = schema.get("items").map_or(ValueType::Any, |items| self.values(items));
        let is_set = schema.get("uniqueItems") == Some(&Value::Bool(true));
        match element.bare() {
            ValueType::Enum(items) if is_set => ValueType::Set(items.clone()),
            _ => {
                let length = length(schema, "minItems", "maxItems");
                ValueType::List { length, element: Box::new(element) }
            }
        }
    }

    fn map(&mut self, schema: &'a Map<String, Value>) -> ValueType {
        let required = schema.get("required").and_then(Value::as_array);
        let is_required =
            |name: &str| required.is_some_and(|names| names.iter().any(|other| other == name));
        let mut fields = Vec::new();
        for (name, field) in
            schema.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            fields.push(Field {
                values: self.values(field),
                required: is_required(name),
                default: field.get("default").cloned(),
                desc: field.get("description").and_then(Value::as_str).map(str::to_owned),
                name: name.clone(),
            });
        }
        let others = match schema.get("additionalProperties") {
            Some(Value::Bool(false)) => None,
            Some(others) => Some(Box::new(self.values(others))),
            None => Some(Box::new(ValueType::Any)),
        };
        ValueType::Map { fields, others }
    }
}

/// One of several types; several enums are one.
fn merged(types: Vec<ValueType>) -> ValueType {
    let mut items = Vec::new();
    let mut others = Vec::new();
    for one in types {
        match one {
            ValueType::Enum(more) => items.extend(more),
            other => others.push(other),
        }
    }
    if !items.is_empty() {
        others.insert(0, ValueType::Enum(items));
    }
    any_of(others)
}

/// An enum; null is a type of its own.
fn one_of(items: Vec<Value>) -> ValueType {
    let (nulls, items): (Vec<_>, Vec<_>) = items.into_iter().partition(Value::is_null);
    let values = ValueType::Enum(items);
    match nulls.is_empty() {
        true => values,
        false => ValueType::AnyOf(vec![values, ValueType::Null]),
    }
}

fn range(schema: &Map<String, Value>, of_type: Range) -> Range {
    let limit = |name| schema.get(name).and_then(Value::as_f64);
    Range {
        min: limit("minimum").unwrap_or(of_type.min).max(of_type.min),
        max: limit("maximum").unwrap_or(of_type.max).min(of_type.max),
    }
}

/// The integers of Rust's types, by the names that their schemas have.
fn of_format(schema: &Map<String, Value>) -> Range {
    let bits = |signed: bool, bits: i32| match signed {
        true => Range { min: -(2f64.powi(bits - 1)), max: 2f64.powi(bits - 1) - 1.0 },
        false => Range { min: 0.0, max: 2f64.powi(bits) - 1.0 },
    };
    match schema.get("format").and_then(Value::as_str) {
        Some("int8") => bits(true, 8),
        Some("int16") => bits(true, 16),
        Some("int32") => bits(true, 32),
        Some("int64" | "int") => bits(true, 64),
        Some("uint8") => bits(false, 8),
        Some("uint16") => bits(false, 16),
        Some("uint32") => bits(false, 32),
        Some("uint64" | "uint") => bits(false, 64),
        _ => Range::ALL,
    }
}

fn length(schema: &Map<String, Value>, min: &str, max: &str) -> Length {
    let limit = |name| schema.get(name).and_then(Value::as_u64);
    let limit = |name| limit(name).map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    Length { min: limit(min).unwrap_or(0), max: limit(max).unwrap_or(usize::MAX) }
}

impl JsonSchema for Data {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "data".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "contentEncoding": "base64" })
    }
}
