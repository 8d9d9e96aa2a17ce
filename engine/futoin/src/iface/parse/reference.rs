//! References to types and what names them: fields of maps, members of enums and sets (FTN3 §1.8).

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::document::{DocumentNode, Json};
use super::standard_type::StandardType;
use crate::iface::check::MAX_MEMBERS;
use crate::iface::error::{LoadError, Rule};
use crate::iface::name::{is_type, is_variable};

/// A type by name, or a list of alternatives (FTN3 §1.8.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TypeRef {
    Named(String),
    AnyOf(Vec<String>),
}

impl TypeRef {
    /// As a definition writes it.
    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Named(name) => name.as_str().into(),
            Self::AnyOf(names) => names.iter().map(String::as_str).collect(),
        }
    }

    /// Reads the name of a type.
    pub(crate) fn named(node: &DocumentNode<'_>) -> Result<Self, LoadError> {
        let name = node.text()?;
        match StandardType::named(name).map(StandardType::row) {
            Some(row) => node.require(row.since, row.feature)?,
            None if is_type(name) => {}
            None => return Err(node.fail(Rule::UnknownType(name.to_owned()))),
        }
        Ok(Self::Named(name.to_owned()))
    }

    /// Reads the name of a type or a list of names.
    pub(crate) fn read(node: &DocumentNode<'_>) -> Result<Self, LoadError> {
        match node.json() {
            Json::List(_) => Self::any_of(node),
            Json::Scalar(_) | Json::Object(_) => Self::named(node),
        }
    }

    /// Reads a variable or type in its short form: a bare name or a list of names (FTN3 §1.8.3,
    /// §1.8.4). `None` for the long form, an object.
    pub(crate) fn shortcut(entry: &DocumentNode<'_>) -> Result<Option<Self>, LoadError> {
        match entry.json() {
            Json::Object(_) => return Ok(None),
            Json::Scalar(_) => entry.require(4, "a type shortcut")?,
            Json::List(_) => {}
        }
        Self::read(entry).map(Some)
    }

    fn any_of(list: &DocumentNode<'_>) -> Result<Self, LoadError> {
        list.require(6, "a list of types")?;
        let names = names(list, |item| Self::named(item).map(drop))?;
        if names.is_empty() {
            return Err(list.fail(Rule::Expected("a list of at least one type")));
        }
        Ok(Self::AnyOf(names))
    }
}

/// A field of a map type.
#[derive(Debug, Clone)]
pub(crate) struct FieldDecl {
    pub(crate) name: String,
    pub(crate) type_ref: TypeRef,
    pub(crate) optional: bool,
}

impl FieldDecl {
    /// Reads the constraint `fields`.
    pub(crate) fn read_all(map: &DocumentNode<'_>) -> Result<Vec<Self>, LoadError> {
        map.fields()?.map(|entry| Self::read(&entry)).collect()
    }

    fn read(entry: &DocumentNode<'_>) -> Result<Self, LoadError> {
        let name = variable_name(entry)?;
        if let Some(type_ref) = TypeRef::shortcut(entry)? {
            return Ok(Self { name, type_ref, optional: false });
        }
        let (mut type_ref, mut optional) = (None, false);
        for field in entry.fields()? {
            match field.name() {
                "type" => type_ref = Some(TypeRef::named(&field)?),
                "optional" => optional = field.flag()?,
                "desc" => drop(field.text()?),
                _ => return Err(field.fail(Rule::UnknownField)),
            }
        }
        let type_ref = type_ref.ok_or_else(|| entry.fail(Rule::Missing("type")))?;
        Ok(Self { name, type_ref, optional })
    }

    /// Fields as a definition writes them.
    pub(crate) fn to_value(fields: &[Self]) -> Value {
        let field = |field: &Self| {
            let type_ref = field.type_ref.to_value();
            (field.name.clone(), json!({ "type": type_ref, "optional": field.optional }))
        };
        fields.iter().map(field).collect::<Map<_, _>>().into()
    }
}

/// A member of an enum or set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TypeMember {
    Number(i32),
    Text(String),
}

impl TypeMember {
    /// Reads the constraint `items`.
    pub(crate) fn read_all(list: &DocumentNode<'_>) -> Result<Vec<Self>, LoadError> {
        let mut members: Vec<Self> = Vec::new();
        for item in list.items()? {
            members.push(Self::read(&item)?);
            if members.len() > MAX_MEMBERS {
                return Err(list.fail(Rule::Expected("a list of at most 1000 items")));
            }
        }
        let is_repeated = |(at, member)| members.iter().take(at).any(|other| other == member);
        if members.iter().enumerate().any(is_repeated) {
            return Err(list.fail(Rule::Repeated));
        }
        if members.is_empty() {
            return Err(list.fail(Rule::Expected("a list of at least one item")));
        }
        Ok(members)
    }

    fn read(item: &DocumentNode<'_>) -> Result<Self, LoadError> {
        let value = item.scalar();
        let number = value.and_then(Value::as_i64).and_then(|number| i32::try_from(number).ok());
        let text = value.and_then(Value::as_str);
        match (number, text) {
            (Some(number), _) => Ok(Self::Number(number)),
            (None, Some(text)) => Ok(Self::Text(text.to_owned())),
            (None, None) => Err(item.fail(Rule::Expected("an integer or a string"))),
        }
    }

    /// As a definition writes it.
    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Number(number) => (*number).into(),
            Self::Text(text) => text.as_str().into(),
        }
    }
}

/// The name of a parameter, a result variable, or a field of a map.
pub(crate) fn variable_name(entry: &DocumentNode<'_>) -> Result<String, LoadError> {
    if !is_variable(entry.name()) {
        return Err(entry.fail(Rule::Expected("named like some_name")));
    }
    Ok(entry.name().to_owned())
}

/// A list of different strings, each of which passes `check`.
pub(crate) fn names(
    list: &DocumentNode<'_>,
    check: impl Fn(&DocumentNode<'_>) -> Result<(), LoadError>,
) -> Result<Vec<String>, LoadError> {
    let mut seen = BTreeSet::new();
    let mut names = Vec::new();
    for item in list.items()? {
        check(&item)?;
        let name = item.text()?;
        if !seen.insert(name) {
            return Err(item.fail(Rule::Repeated));
        }
        names.push(name.to_owned());
    }
    Ok(names)
}
