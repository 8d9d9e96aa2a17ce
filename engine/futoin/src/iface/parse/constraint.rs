//! The constraints of custom types (FTN3 §1.8.1).
//!
//! To add one: a variant of [`Constraint`] with its data, its row in [`TABLE`], and how a
//! definition writes it in [`Constraint::to_value`]. The compiler then asks for its check, where
//! `compile::types` builds one.

use serde_json::Value;

use super::document::DocumentNode;
use super::reference::{FieldDecl, TypeMember, TypeRef};
use super::source_file::SourceFile;
use super::standard_type::StandardType;
use crate::iface::error::{LoadError, Rule};

/// A constraint that a custom type adds to its base.
#[derive(Debug, Clone)]
pub(crate) enum Constraint {
    Min(f64),
    Max(f64),
    /// In UTF-16 units of a string, items of an array, bytes of data.
    MinLength(usize),
    MaxLength(usize),
    Regex(String),
    ElementType(TypeRef),
    Fields(Vec<FieldDecl>),
    Items(Vec<TypeMember>),
}

/// How a constraint is written and where it applies.
#[derive(Debug)]
struct ConstraintRow {
    name: &'static str,
    read: fn(&DocumentNode<'_>) -> Result<Constraint, LoadError>,
    applies: &'static [Applies],
}

/// A standard type that a constraint can be put on, since FTN3 1.`since`.
#[derive(Debug)]
struct Applies {
    to: StandardType,
    since: u32,
    /// The name of the constraint on this type in errors.
    feature: &'static str,
}

const fn to(to: StandardType) -> Applies {
    Applies { to, since: 0, feature: "" }
}

const NUMBERS: &[Applies] = &[to(StandardType::Integer), to(StandardType::Number)];

const LENGTHS: &[Applies] = &[
    Applies { to: StandardType::String, since: 5, feature: "the length of a string" },
    to(StandardType::Data),
    to(StandardType::Array),
];

const ELEMENTS: &[Applies] = &[
    to(StandardType::Array),
    Applies { to: StandardType::Map, since: 6, feature: "elemtype of a map" },
];

const MEMBERS: &[Applies] = &[to(StandardType::Enum), to(StandardType::Set)];

/// Every constraint of FTN3.
static TABLE: [ConstraintRow; 8] = [
    ConstraintRow {
        name: "min",
        read: |node| node.number().map(Constraint::Min),
        applies: NUMBERS,
    },
    ConstraintRow {
        name: "max",
        read: |node| node.number().map(Constraint::Max),
        applies: NUMBERS,
    },
    ConstraintRow {
        name: "minlen",
        read: |node| node.count().map(Constraint::MinLength),
        applies: LENGTHS,
    },
    ConstraintRow {
        name: "maxlen",
        read: |node| node.count().map(Constraint::MaxLength),
        applies: LENGTHS,
    },
    ConstraintRow {
        name: "regex",
        read: |node| Ok(Constraint::Regex(node.text()?.to_owned())),
        applies: &[to(StandardType::String)],
    },
    ConstraintRow {
        name: "elemtype",
        read: |node| TypeRef::read(node).map(Constraint::ElementType),
        applies: ELEMENTS,
    },
    ConstraintRow {
        name: "fields",
        read: |node| FieldDecl::read_all(node).map(Constraint::Fields),
        applies: &[to(StandardType::Map)],
    },
    ConstraintRow {
        name: "items",
        read: |node| TypeMember::read_all(node).map(Constraint::Items),
        applies: MEMBERS,
    },
];

impl Constraint {
    /// As a definition writes it.
    fn to_value(&self) -> Value {
        match self {
            Self::Min(limit) | Self::Max(limit) => number(*limit),
            Self::MinLength(length) | Self::MaxLength(length) => (*length).into(),
            Self::Regex(pattern) => pattern.as_str().into(),
            Self::ElementType(element) => element.to_value(),
            Self::Fields(fields) => FieldDecl::to_value(fields),
            Self::Items(members) => members.iter().map(TypeMember::to_value).collect(),
        }
    }
}

/// A limit as people write it, without a fraction where there is none.
fn number(limit: f64) -> Value {
    let text = limit.to_string();
    text.parse::<i64>().map_or_else(|_| limit.into(), Value::from)
}

/// The constraints of one custom type, each at most once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Constraints(Vec<(&'static ConstraintRow, Constraint)>);

impl Constraints {
    /// Reads a field of a type as a constraint.
    pub(crate) fn read(&mut self, field: &DocumentNode<'_>) -> Result<(), LoadError> {
        let row = TABLE.iter().find(|row| row.name == field.name());
        let row = row.ok_or_else(|| field.fail(Rule::UnknownField))?;
        self.0.push((row, (row.read)(field)?));
        Ok(())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Constraint> {
        self.0.iter().map(|(_, constraint)| constraint)
    }

    /// Their names in definitions.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|(row, _)| row.name)
    }

    /// As a definition writes them.
    pub(crate) fn to_values(&self) -> impl Iterator<Item = (String, Value)> {
        self.0.iter().map(|(row, constraint)| (row.name.to_owned(), constraint.to_value()))
    }

    /// Takes over the constraints of the base type that are not refined here.
    pub(crate) fn inherit(&mut self, base: &Self) {
        for (row, constraint) in &base.0 {
            if self.names().all(|name| name != row.name) {
                self.0.push((row, constraint.clone()));
            }
        }
    }

    /// Refuses constraints that the type does not have.
    pub(crate) fn check_base(&self, base: StandardType) -> Result<(), Rule> {
        let applies = |row: &ConstraintRow| row.applies.iter().any(|applies| applies.to == base);
        if let Some((row, _)) = self.0.iter().find(|(row, _)| !applies(row)) {
            let base = base.row().name;
            return Err(Rule::Inapplicable { constraint: row.name, base });
        }
        // FTN3 §1.8.1: elemtype is for a map without fields.
        let has = |name| self.names().any(|known| known == name);
        if has("fields") && has("elemtype") {
            return Err(Rule::Inapplicable { constraint: "elemtype", base: "a map with fields" });
        }
        Ok(())
    }

    /// Refuses constraints that are newer than the file that sets them (FTN3 §2.6).
    pub(crate) fn check_revision(&self, base: StandardType, file: &SourceFile) -> Result<(), Rule> {
        let applies = self.0.iter().flat_map(|(row, _)| row.applies);
        for applies in applies.filter(|applies| applies.to == base) {
            file.require(applies.since, applies.feature)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::iface::fixture::{iface, load};

    #[test]
    fn every_constraint_is_written_as_it_is_read() {
        let types = json!({
            "Number": {"type": "number", "min": -1, "max": 2.5},
            "Text": {"type": "string", "minlen": 1, "maxlen": 9, "regex": "^a"},
            "List": {"type": "array", "elemtype": ["integer", "Text"]},
            "Map": {"type": "map", "fields": {"a": {"type": "Text", "optional": true}}},
            "Enum": {"type": "enum", "items": ["a", 7]},
        });
        let is_used = |row: &ConstraintRow| {
            types.as_object().unwrap().values().any(|declared| declared.get(row.name).is_some())
        };
        assert!(TABLE.iter().all(is_used), "each row has a type here");
        let definition = load(&[iface(json!({ "types": types }))]).unwrap();
        assert_eq!(definition.types().count(), 5);
        for (name, written) in definition.types() {
            assert_eq!(written, &types[name], "{name}");
        }
    }
}
