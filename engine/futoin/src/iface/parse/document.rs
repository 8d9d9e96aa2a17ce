//! A JSON document that keeps the order of its fields, and its nodes, which know their position.
//!
//! Parameters are checked in the order of their declaration (FTN3 §2.3), whatever map type
//! `serde_json` was built with, and a repeated field in a definition is an error.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::source_file::SourceFile;
use crate::iface::error::{LoadError, Rule};

/// A JSON value whose objects are lists of fields.
#[derive(Debug)]
pub(crate) enum Json {
    Scalar(Value),
    List(Vec<Self>),
    Object(Vec<(String, Self)>),
}

impl Json {
    /// The same as a plain value; the last of equal fields would win, but there are none.
    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Scalar(value) => value.clone(),
            Self::List(items) => items.iter().map(Self::to_value).collect(),
            Self::Object(fields) => {
                fields.iter().map(|(name, node)| (name.clone(), node.to_value())).collect()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Scalar(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Scalar(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Scalar(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json, A::Error> {
        let mut fields: Vec<(String, Json)> = Vec::new();
        while let Some(field) = entries.next_entry()? {
            fields.push(field);
        }
        let mut seen = BTreeSet::new();
        match fields.iter().find(|(name, _)| !seen.insert(name.as_str())) {
            Some((name, _)) => Err(A::Error::custom(format_args!("field {name:?} is repeated"))),
            None => Ok(Json::Object(fields)),
        }
    }
}

/// A value in a definition, which knows its file and its position there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DocumentNode<'a> {
    file: &'a Arc<SourceFile>,
    parent: Option<&'a Self>,
    key: NodeKey<'a>,
    json: &'a Json,
}

#[derive(Debug, Clone, Copy)]
enum NodeKey<'a> {
    Root,
    Field(&'a str),
    Index(usize),
}

impl<'a> DocumentNode<'a> {
    pub(crate) fn root(file: &'a Arc<SourceFile>, json: &'a Json) -> Self {
        Self { file, parent: None, key: NodeKey::Root, json }
    }

    /// The name of this field; empty at the root and inside a list.
    pub(crate) fn name(&self) -> &'a str {
        match self.key {
            NodeKey::Field(name) => name,
            NodeKey::Root | NodeKey::Index(_) => "",
        }
    }

    pub(crate) fn json(&self) -> &'a Json {
        self.json
    }

    pub(crate) fn file(&self) -> &'a Arc<SourceFile> {
        self.file
    }

    /// An error at this position.
    pub(crate) fn fail(&self, rule: Rule) -> LoadError {
        self.file.fail(self.pointer(), rule)
    }

    /// Refuses a feature of FTN3 1.`since` in a file written for an older revision (FTN3 §2.6).
    pub(crate) fn require(&self, since: u32, feature: &'static str) -> Result<(), LoadError> {
        self.file.require(since, feature).map_err(|rule| self.fail(rule))
    }

    /// The fields of an object, in the order of the file.
    pub(crate) fn fields(&self) -> Result<impl Iterator<Item = DocumentNode<'_>>, LoadError> {
        let Json::Object(fields) = self.json else {
            return Err(self.fail(Rule::Expected("an object")));
        };
        Ok(fields.iter().map(|(name, json)| self.child(NodeKey::Field(name), json)))
    }

    /// The items of a list.
    pub(crate) fn items(&self) -> Result<impl Iterator<Item = DocumentNode<'_>>, LoadError> {
        let Json::List(items) = self.json else {
            return Err(self.fail(Rule::Expected("a list")));
        };
        Ok(items.iter().enumerate().map(|(index, json)| self.child(NodeKey::Index(index), json)))
    }

    /// One field of an object; `None` if it is absent or this is no object.
    pub(crate) fn field(&self, name: &str) -> Option<DocumentNode<'_>> {
        let Json::Object(fields) = self.json else {
            return None;
        };
        let (name, json) = fields.iter().find(|(field, _)| field == name)?;
        Some(self.child(NodeKey::Field(name), json))
    }

    pub(crate) fn text(&self) -> Result<&'a str, LoadError> {
        self.scalar().and_then(Value::as_str).ok_or_else(|| self.fail(Rule::Expected("a string")))
    }

    pub(crate) fn flag(&self) -> Result<bool, LoadError> {
        let flag = self.scalar().and_then(Value::as_bool);
        flag.ok_or_else(|| self.fail(Rule::Expected("true or false")))
    }

    pub(crate) fn number(&self) -> Result<f64, LoadError> {
        let number = self.scalar().and_then(Value::as_f64);
        number.ok_or_else(|| self.fail(Rule::Expected("a number")))
    }

    /// A count: a whole number, not negative.
    pub(crate) fn count(&self) -> Result<usize, LoadError> {
        let count = self.scalar().and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
        count.ok_or_else(|| self.fail(Rule::Expected("a whole number, 0 or more")))
    }

    pub(crate) fn scalar(&self) -> Option<&'a Value> {
        match self.json {
            Json::Scalar(value) => Some(value),
            Json::List(_) | Json::Object(_) => None,
        }
    }

    fn child<'b>(&'b self, key: NodeKey<'b>, json: &'b Json) -> DocumentNode<'b> {
        DocumentNode { file: self.file, parent: Some(self), key, json }
    }

    fn pointer(&self) -> String {
        let mut pointer = self.parent.map(Self::pointer).unwrap_or_default();
        match self.key {
            NodeKey::Root => {}
            NodeKey::Field(name) => {
                pointer.push('/');
                pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
            }
            NodeKey::Index(index) => pointer.push_str(&format!("/{index}")),
        }
        pointer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iface::name::Version;

    #[test]
    fn fields_keep_their_order_and_errors_their_place() {
        let json: Json = serde_json::from_str(r#"{"z": [1, {"a/b": null}], "a": true}"#).unwrap();
        let id = "a.b:1.0".parse().unwrap();
        let revision = Version::new(1, 0);
        let file = Arc::new(SourceFile { id, name: "file".to_owned(), revision });
        let root = DocumentNode::root(&file, &json);
        let names: Vec<&str> = root.fields().unwrap().map(|field| field.name()).collect();
        assert_eq!(names, ["z", "a"]);
        let list = root.field("z").unwrap();
        let object = list.items().unwrap().nth(1).unwrap();
        let inner = object.field("a/b").unwrap();
        assert_eq!(inner.text().unwrap_err().to_string(), "file: /z/1/a~1b: must be a string");
        assert_eq!(root.text().unwrap_err().to_string(), "file: must be a string");
    }

    #[test]
    fn a_repeated_field_is_refused() {
        let error = serde_json::from_str::<Json>(r#"{"a": {"b": 1, "b": 2}}"#).unwrap_err();
        assert!(error.to_string().starts_with("field \"b\" is repeated"), "{error}");
    }
}
