//! Where a type has bytes: what the codings of messages must know of it.

use std::sync::Arc;

use serde_json::Value;

use super::{
    check::Check,
    definition::{Function, Parameter, Shape},
};

/// A declared type (FTN3 §1.8), as far as byte strings are concerned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind<'a>(&'a Check);

impl<'a> Kind<'a> {
    pub(crate) fn is_data(self) -> bool {
        matches!(self.0, Check::Data(_))
    }

    pub(crate) fn is_any(self) -> bool {
        matches!(self.0, Check::Any)
    }

    /// Whether a list can be of this type.
    pub(crate) fn has_lists(self) -> bool {
        matches!(self.0, Check::Any | Check::List { .. } | Check::Set(_) | Check::Enum(_))
    }

    /// Whether a map can be of this type.
    pub(crate) fn has_maps(self) -> bool {
        matches!(self.0, Check::Any | Check::Map { .. } | Check::Enum(_))
    }

    /// The type of a list's items, if it is known.
    pub(crate) fn element(self) -> Option<Self> {
        let Check::List { element, .. } = self.0 else {
            return None;
        };
        element.as_deref().map(Self)
    }

    /// The type of a map's field, if it is known.
    pub(crate) fn field(self, name: &str) -> Option<Self> {
        let Check::Map { fields, element } = self.0 else {
            return None;
        };
        let field = fields.iter().find(|field| &*field.name == name).map(|field| &field.check);
        field.or(element.as_ref()).map(|check| Self(check))
    }

    /// The types of a list of types (FTN3 §1.8.4), or the type itself; all of them are no lists.
    pub(crate) fn alternatives(self) -> Box<dyn Iterator<Item = Self> + 'a> {
        let Check::AnyOf(kinds) = self.0 else {
            return Box::new(std::iter::once(self));
        };
        Box::new(kinds.iter().flat_map(|kind| Self(kind).alternatives()))
    }

    /// The type that `value` is of: the first of a list of types that accepts it.
    pub(crate) fn chosen(self, value: &Value) -> Option<Self> {
        let Check::AnyOf(kinds) = self.0 else {
            return Some(self);
        };
        let kind = kinds.iter().find(|kind| kind.accepts(value))?;
        Self(kind).chosen(value)
    }
}

impl Parameter {
    pub(crate) fn kind(&self) -> Kind<'_> {
        Kind(&self.check)
    }
}

impl Function {
    /// The type of a result that is a type (FTN3 §1.8.5).
    pub(crate) fn result_kind(&self) -> Option<Kind<'_>> {
        match &self.result {
            Shape::Whole(check) => Some(Kind(Arc::as_ref(check))),
            Shape::Nothing | Shape::Raw | Shape::Variables(_) => None,
        }
    }

    /// The type of a result variable.
    pub(crate) fn variable_kind(&self, name: &str) -> Option<Kind<'_>> {
        match &self.result {
            Shape::Variables(variables) => {
                variables.iter().find(|variable| &*variable.name == name).map(Parameter::kind)
            }
            Shape::Nothing | Shape::Raw | Shape::Whole(_) => None,
        }
    }
}
