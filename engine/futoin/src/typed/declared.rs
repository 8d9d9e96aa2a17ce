//! The values of the types of a definition.

use serde_json::{Map, Value};

use super::value_type::{Field, Length, Range, ValueType, any_of};
use crate::iface::Definition;

/// How an optional field that is missing is treated.
#[derive(Clone, Copy)]
pub(super) enum Missing {
    /// It is null: values of parameters are seen after they were checked (FTN3 §1.8.1).
    IsNull,
    /// It may stay missing: values of results are seen before.
    Stays,
}

/// The types of a definition.
#[derive(Clone, Copy)]
pub(super) struct Types<'a> {
    pub(super) definition: &'a Definition,
    pub(super) missing: Missing,
}

impl Types<'_> {
    /// The values of a type, written as a name or a list of names (FTN3 §1.8.4).
    pub(super) fn values(self, written: &Value) -> ValueType {
        match written {
            Value::Array(names) => any_of(names.iter().map(|name| self.values(name)).collect()),
            Value::String(name) => self.named(name),
            _ => ValueType::Any,
        }
    }

    fn named(self, name: &str) -> ValueType {
        // a definition that was loaded has all types that it names, and none contains itself
        let declared =
            self.definition.types().find(|(other, _)| *other == name).map(|(_, kind)| kind);
        match declared {
            Some(Value::Object(declared)) => {
                let base = declared.get("type").map_or(ValueType::Any, |base| self.values(base));
                ValueType::Named(name.to_owned(), Box::new(self.constrained(&base, declared)))
            }
            Some(short) => ValueType::Named(name.to_owned(), Box::new(self.values(short))),
            None => builtin(name),
        }
    }

    /// A type with the constraints of one that is based on it (FTN3 §1.8.1).
    fn constrained(self, base: &ValueType, limits: &Map<String, Value>) -> ValueType {
        let items = || limits.get("items").and_then(Value::as_array).cloned();
        let element = || limits.get("elemtype").map(|element| Box::new(self.values(element)));
        match base.bare().clone() {
            ValueType::Integer(base) => ValueType::Integer(range(limits, base)),
            ValueType::Number(base) => ValueType::Number(range(limits, base)),
            ValueType::Data(base) => ValueType::Data(length(limits, base)),
            ValueType::Text { length: base, pattern } => {
                let own = limits.get("regex").and_then(Value::as_str).map(str::to_owned);
                ValueType::Text { length: length(limits, base), pattern: own.or(pattern) }
            }
            ValueType::List { length: base, element: of_base } => {
                let element = element().unwrap_or(of_base);
                ValueType::List { length: length(limits, base), element }
            }
            ValueType::Map { fields, others } => {
                let own = limits.get("fields").and_then(Value::as_object);
                let own = own.map(|own| own.iter().map(|entry| self.field(entry)).collect());
                ValueType::Map { fields: own.unwrap_or(fields), others: element().or(others) }
            }
            ValueType::Enum(of_base) => ValueType::Enum(items().unwrap_or(of_base)),
            ValueType::Set(of_base) => ValueType::Set(items().unwrap_or(of_base)),
            other => other,
        }
    }

    /// A field of a map. An optional one may be missing or null, and is null once it is checked.
    fn field(self, (name, declared): (&String, &Value)) -> Field {
        let (kind, is_optional) = match declared {
            Value::Object(declared) => {
                (declared.get("type"), declared.get("optional") == Some(&Value::Bool(true)))
            }
            short => (Some(short), false),
        };
        let values = kind.map_or(ValueType::Any, |kind| self.values(kind));
        let values = match is_optional {
            true => ValueType::AnyOf(vec![values, ValueType::Null]),
            false => values,
        };
        Field {
            name: name.clone(),
            values,
            required: !is_optional || matches!(self.missing, Missing::IsNull),
            default: None,
            desc: None,
        }
    }
}

fn builtin(name: &str) -> ValueType {
    let any = || Box::new(ValueType::Any);
    match name {
        "boolean" => ValueType::Boolean,
        "integer" => ValueType::Integer(Range::INTEGER),
        "number" => ValueType::Number(Range::ALL),
        "string" => ValueType::TEXT,
        "data" => ValueType::Data(Length::ALL),
        "array" => ValueType::List { length: Length::ALL, element: any() },
        "map" => ValueType::Map { fields: Vec::new(), others: Some(any()) },
        // `enum` and `set` get their items from the type that is based on them
        "enum" => ValueType::Enum(Vec::new()),
        "set" => ValueType::Set(Vec::new()),
        _ => ValueType::Any,
    }
}

fn range(limits: &Map<String, Value>, base: Range) -> Range {
    let limit = |name| limits.get(name).and_then(Value::as_f64);
    Range { min: limit("min").unwrap_or(base.min), max: limit("max").unwrap_or(base.max) }
}

fn length(limits: &Map<String, Value>, base: Length) -> Length {
    let limit = |name| limits.get(name).and_then(Value::as_u64);
    let limit = |name| limit(name).map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    Length { min: limit("minlen").unwrap_or(base.min), max: limit("maxlen").unwrap_or(base.max) }
}
