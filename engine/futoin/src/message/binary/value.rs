//! Values with byte strings.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Number, Value};

use crate::iface::DeclaredType;

/// A value of a binary coding: a value of JSON or a byte string.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum BinaryValue {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    Bytes(Vec<u8>),
    List(Vec<Self>),
    Map(BTreeMap<String, Self>),
}

impl BinaryValue {
    /// The value as JSON. Byte strings become base64 text.
    pub(crate) fn into_value(self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(flag) => Value::Bool(flag),
            Self::Number(number) => Value::Number(number),
            Self::Text(text) => Value::String(text),
            Self::Bytes(bytes) => Value::String(STANDARD.encode(bytes)),
            Self::List(items) => items.into_iter().map(Self::into_value).collect(),
            Self::Map(items) => {
                Value::Object(items.into_iter().map(|(k, v)| (k, v.into_value())).collect())
            }
        }
    }

    /// Whether byte strings are where the type is `data` or `any`, and text is not where it is `data`.
    /// Later, when both are JSON text, they look the same. Beyond that, only lists and maps are
    /// distinguished from other values here.
    pub(crate) fn fits(&self, declared: DeclaredType<'_>) -> bool {
        declared.alternatives().any(|kind| match self {
            Self::Bytes(_) => kind.is_data() || kind.is_any(),
            Self::Text(_) => !kind.is_data(),
            Self::List(items) => {
                let element = kind.element();
                kind.has_lists()
                    && element.is_none_or(|kind| items.iter().all(|item| item.fits(kind)))
            }
            Self::Map(items) => {
                let fits = |(name, item): (&String, &Self)| {
                    kind.field(name).is_none_or(|kind| item.fits(kind))
                };
                kind.has_maps() && items.iter().all(fits)
            }
            Self::Null | Self::Bool(_) | Self::Number(_) => true,
        })
    }
}
