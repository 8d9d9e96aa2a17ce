//! Custom types and references to types (FTN3 §1.8).

use std::{collections::BTreeMap, sync::Arc};

use super::{Parser, names, variable_name};
use crate::iface::{
    decl::{FieldDecl, Item, Limits, TypeDecl, TypeRef},
    error::{LoadError, Rule},
    name::is_type,
    node::{Cursor, Node},
};

/// FTN3 §2.1: most members of one enum or set.
pub(in crate::iface) const MAX_ITEMS: usize = 1000;

impl Parser<'_> {
    pub(super) fn types(&self, map: &Cursor<'_>) -> Result<BTreeMap<String, TypeDecl>, LoadError> {
        self.gate(map, 1, "types")?;
        let mut types = BTreeMap::new();
        for entry in map.fields()? {
            if !is_type(entry.name()) {
                return Err(entry.fail(Rule::Expected("named like SomeType")));
            }
            types.insert(entry.name().to_owned(), self.type_decl(&entry)?);
        }
        Ok(types)
    }

    fn type_decl(&self, entry: &Cursor<'_>) -> Result<TypeDecl, LoadError> {
        let origin = Arc::clone(self.origin);
        if let Some(base) = self.shortcut(entry)? {
            return Ok(TypeDecl { base, limits: Limits::default(), origin });
        }
        let mut base = None;
        let mut limits = Limits::default();
        for field in entry.fields()? {
            match field.name() {
                "type" => base = Some(self.named(&field)?),
                "min" => limits.min = Some(field.number()?),
                "max" => limits.max = Some(field.number()?),
                "minlen" => limits.minlen = Some(field.count()?),
                "maxlen" => limits.maxlen = Some(field.count()?),
                "regex" => limits.regex = Some(field.text()?.to_owned()),
                "elemtype" => limits.elemtype = Some(self.element(&field)?),
                "fields" => limits.fields = Some(self.fields(&field)?),
                "items" => limits.items = Some(items(&field)?),
                "desc" => drop(field.text()?),
                _ => return Err(field.fail(Rule::UnknownField)),
            }
        }
        let base = base.ok_or_else(|| entry.fail(Rule::Missing("type")))?;
        Ok(TypeDecl { base, limits, origin })
    }

    fn fields(&self, map: &Cursor<'_>) -> Result<Vec<FieldDecl>, LoadError> {
        map.fields()?.map(|field| self.field(&field)).collect()
    }

    fn field(&self, entry: &Cursor<'_>) -> Result<FieldDecl, LoadError> {
        let name = variable_name(entry)?;
        if let Some(kind) = self.shortcut(entry)? {
            return Ok(FieldDecl { name, kind, optional: false });
        }
        let (mut kind, mut optional) = (None, false);
        for field in entry.fields()? {
            match field.name() {
                "type" => kind = Some(self.named(&field)?),
                "optional" => optional = field.flag()?,
                "desc" => drop(field.text()?),
                _ => return Err(field.fail(Rule::UnknownField)),
            }
        }
        let kind = kind.ok_or_else(|| entry.fail(Rule::Missing("type")))?;
        Ok(FieldDecl { name, kind, optional })
    }

    /// A type written as a bare name or a list of names (FTN3 §1.8.3, §1.8.4); `None` for the
    /// long form.
    pub(super) fn shortcut(&self, entry: &Cursor<'_>) -> Result<Option<TypeRef>, LoadError> {
        match entry.node() {
            Node::Object(_) => Ok(None),
            Node::Scalar(_) => {
                self.gate(entry, 4, "a type shortcut")?;
                Ok(Some(self.named(entry)?))
            }
            Node::List(_) => Ok(Some(self.alternatives(entry)?)),
        }
    }

    fn element(&self, field: &Cursor<'_>) -> Result<TypeRef, LoadError> {
        match field.node() {
            Node::List(_) => self.alternatives(field),
            Node::Scalar(_) | Node::Object(_) => self.named(field),
        }
    }

    fn alternatives(&self, list: &Cursor<'_>) -> Result<TypeRef, LoadError> {
        self.gate(list, 6, "a list of types")?;
        let names = names(list, |item| self.named(item).map(drop))?;
        if names.is_empty() {
            return Err(list.fail(Rule::Expected("a list of at least one type")));
        }
        Ok(TypeRef::AnyOf(names))
    }

    pub(super) fn named(&self, field: &Cursor<'_>) -> Result<TypeRef, LoadError> {
        let name = field.text()?;
        match name {
            "any" => self.gate(field, 1, "type any")?,
            "enum" | "set" => self.gate(field, 6, "types enum and set")?,
            "data" => self.gate(field, 9, "type data")?,
            "boolean" | "integer" | "number" | "string" | "map" | "array" => {}
            custom if is_type(custom) => {}
            other => return Err(field.fail(Rule::UnknownType(other.to_owned()))),
        }
        Ok(TypeRef::Named(name.to_owned()))
    }
}

fn items(list: &Cursor<'_>) -> Result<Vec<Item>, LoadError> {
    let mut items = Vec::new();
    for cursor in list.items()? {
        let value = cursor.scalar();
        let number = value.and_then(serde_json::Value::as_i64).and_then(|n| i32::try_from(n).ok());
        let text = value.and_then(serde_json::Value::as_str);
        let item = match (number, text) {
            (Some(number), _) => Item::Number(number),
            (None, Some(text)) => Item::Text(text.to_owned()),
            (None, None) => return Err(cursor.fail(Rule::Expected("an integer or a string"))),
        };
        items.push(item);
        if items.len() > MAX_ITEMS {
            return Err(list.fail(Rule::Expected("a list of at most 1000 items")));
        }
    }
    let repeated =
        items.iter().enumerate().any(|(i, item)| items.iter().take(i).any(|o| o == item));
    if repeated {
        return Err(list.fail(Rule::Repeated));
    }
    if items.is_empty() {
        return Err(list.fail(Rule::Expected("a list of at least one item")));
    }
    Ok(items)
}
