//! A JSON document that keeps the order of its fields, and a cursor that knows where it is.
//!
//! Parameters are checked in the order of their declaration (FTN3 §2.3), whatever map type
//! `serde_json` was built with, and a repeated field in a definition is an error.

use std::{collections::BTreeSet, fmt};

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::error::{LoadError, Rule};

/// A JSON value whose objects are lists of fields.
#[derive(Debug)]
pub(super) enum Node {
    Scalar(Value),
    List(Vec<Self>),
    Object(Vec<(String, Self)>),
}

impl Node {
    /// The same as a plain value; the last of equal fields would win, but there are none.
    pub(super) fn to_value(&self) -> Value {
        match self {
            Self::Scalar(value) => value.clone(),
            Self::List(items) => items.iter().map(Self::to_value).collect(),
            Self::Object(fields) => {
                fields.iter().map(|(name, node)| (name.clone(), node.to_value())).collect()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut fields: Vec<(String, Node)> = Vec::new();
        while let Some(field) = entries.next_entry()? {
            fields.push(field);
        }
        let mut seen = BTreeSet::new();
        match fields.iter().find(|(name, _)| !seen.insert(name.as_str())) {
            Some((name, _)) => Err(A::Error::custom(format_args!("field {name:?} is repeated"))),
            None => Ok(Node::Object(fields)),
        }
    }
}

/// A node of a definition with the way that led to it, so that an error can name its place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a> {
    file: &'a str,
    up: Option<&'a Self>,
    key: Key<'a>,
    node: &'a Node,
}

#[derive(Debug, Clone, Copy)]
enum Key<'a> {
    Root,
    Field(&'a str),
    Index(usize),
}

impl<'a> Cursor<'a> {
    pub(super) fn root(file: &'a str, node: &'a Node) -> Self {
        Self { file, up: None, key: Key::Root, node }
    }

    /// The name of this field; empty at the root and inside a list.
    pub(super) fn name(&self) -> &'a str {
        match self.key {
            Key::Field(name) => name,
            Key::Root | Key::Index(_) => "",
        }
    }

    pub(super) fn node(&self) -> &'a Node {
        self.node
    }

    /// An error at this place.
    pub(super) fn fail(&self, rule: Rule) -> LoadError {
        LoadError::new(self.file, self.pointer(), rule)
    }

    /// The fields of an object, in the order of the file.
    pub(super) fn fields(&self) -> Result<impl Iterator<Item = Cursor<'_>>, LoadError> {
        let Node::Object(fields) = self.node else {
            return Err(self.fail(Rule::Expected("an object")));
        };
        Ok(fields.iter().map(|(name, node)| self.child(Key::Field(name), node)))
    }

    /// The items of a list.
    pub(super) fn items(&self) -> Result<impl Iterator<Item = Cursor<'_>>, LoadError> {
        let Node::List(items) = self.node else {
            return Err(self.fail(Rule::Expected("a list")));
        };
        Ok(items.iter().enumerate().map(|(index, node)| self.child(Key::Index(index), node)))
    }

    /// One field of an object; `None` if it is absent or this is no object.
    pub(super) fn field(&self, name: &str) -> Option<Cursor<'_>> {
        let Node::Object(fields) = self.node else {
            return None;
        };
        let (name, node) = fields.iter().find(|(field, _)| field == name)?;
        Some(self.child(Key::Field(name), node))
    }

    pub(super) fn text(&self) -> Result<&'a str, LoadError> {
        self.scalar().and_then(Value::as_str).ok_or_else(|| self.fail(Rule::Expected("a string")))
    }

    pub(super) fn flag(&self) -> Result<bool, LoadError> {
        let flag = self.scalar().and_then(Value::as_bool);
        flag.ok_or_else(|| self.fail(Rule::Expected("true or false")))
    }

    pub(super) fn number(&self) -> Result<f64, LoadError> {
        let number = self.scalar().and_then(Value::as_f64);
        number.ok_or_else(|| self.fail(Rule::Expected("a number")))
    }

    /// A count: a whole number, not negative.
    pub(super) fn count(&self) -> Result<usize, LoadError> {
        let count = self.scalar().and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
        count.ok_or_else(|| self.fail(Rule::Expected("a whole number, 0 or more")))
    }

    pub(super) fn scalar(&self) -> Option<&'a Value> {
        match self.node {
            Node::Scalar(value) => Some(value),
            Node::List(_) | Node::Object(_) => None,
        }
    }

    fn child<'b>(&'b self, key: Key<'b>, node: &'b Node) -> Cursor<'b> {
        Cursor { file: self.file, up: Some(self), key, node }
    }

    fn pointer(&self) -> String {
        let mut pointer = self.up.map(Self::pointer).unwrap_or_default();
        match self.key {
            Key::Root => {}
            Key::Field(name) => {
                pointer.push('/');
                pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
            }
            Key::Index(index) => pointer.push_str(&format!("/{index}")),
        }
        pointer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_keep_their_order_and_errors_their_place() {
        let node: Node = serde_json::from_str(r#"{"z": [1, {"a/b": null}], "a": true}"#).unwrap();
        let root = Cursor::root("file", &node);
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
        let error = serde_json::from_str::<Node>(r#"{"a": {"b": 1, "b": 2}}"#).unwrap_err();
        assert!(error.to_string().starts_with("field \"b\" is repeated"), "{error}");
    }
}
