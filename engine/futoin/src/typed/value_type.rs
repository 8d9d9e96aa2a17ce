//! The values of a type: common ground of JSON schemas and FTN3.

use std::fmt;

use serde_json::Value;

/// The values of a type.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ValueType {
    Any,
    Null,
    Boolean,
    /// Without a fraction.
    Integer(Range),
    Number(Range),
    Text {
        length: Length,
        pattern: Option<String>,
    },
    /// Base64 text for bytes; the length counts the bytes.
    Data(Length),
    List {
        length: Length,
        element: Box<Self>,
    },
    Map {
        fields: Vec<Field>,
        /// The type of fields of other names; `None` if there must be none.
        others: Option<Box<Self>>,
    },
    /// One of these texts and numbers.
    Enum(Vec<Value>),
    /// A list of these, each once at the most.
    Set(Vec<Value>),
    AnyOf(Vec<Self>),
    /// A type with a name of its own.
    Named(String, Box<Self>),
    /// A type that contains itself.
    Recursive(String),
}

/// A field of a map.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) values: ValueType,
    /// Whether it is always there.
    pub(super) required: bool,
    /// Its value if it is missing, as far as the type says.
    pub(super) default: Option<Value>,
    /// A text for people: the doc comment.
    pub(super) desc: Option<String>,
}

/// Inclusive limits of a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Range {
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Range {
    pub(super) const ALL: Self = Self { min: f64::NEG_INFINITY, max: f64::INFINITY };

    /// The bounds of `integer` (FTN3 §1.8).
    pub(super) const INTEGER: Self = Self { min: i32::MIN as f64, max: i32::MAX as f64 };

    pub(super) fn holds(self, other: Self) -> bool {
        self.min <= other.min && other.max <= self.max
    }
}

/// Inclusive limits of a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Length {
    pub(super) min: usize,
    pub(super) max: usize,
}

impl Length {
    pub(super) const ALL: Self = Self { min: 0, max: usize::MAX };

    pub(super) fn holds(self, other: Self) -> bool {
        self.min <= other.min && other.max <= self.max
    }
}

impl ValueType {
    pub(super) const TEXT: Self = Self::Text { length: Length::ALL, pattern: None };

    /// Without names around it.
    pub(super) fn bare(&self) -> &Self {
        match self {
            Self::Named(_, inner) => inner.bare(),
            other => other,
        }
    }

    /// Whether null is among the values.
    pub(super) fn has_null(&self) -> bool {
        match self.bare() {
            Self::Any | Self::Null => true,
            Self::AnyOf(types) => types.iter().any(Self::has_null),
            _ => false,
        }
    }

    /// The values except null.
    pub(super) fn without_null(&self) -> Self {
        match self.bare() {
            Self::AnyOf(types) => {
                let others = types.iter().filter(|one| !matches!(one.bare(), Self::Null));
                any_of(others.cloned().collect())
            }
            _ => self.clone(),
        }
    }
}

/// One of several types; of one, that type.
pub(super) fn any_of(mut types: Vec<ValueType>) -> ValueType {
    if types.len() == 1 { types.remove(0) } else { ValueType::AnyOf(types) }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.min.is_finite() {
            write!(f, " from {}", self.min)?;
        }
        if self.max.is_finite() {
            write!(f, " to {}", self.max)?;
        }
        Ok(())
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ALL => Ok(()),
            Self { min, max: usize::MAX } => write!(f, " of length {min} at least"),
            Self { min: 0, max } => write!(f, " of length {max} at most"),
            Self { min, max } => write!(f, " of length {min} to {max}"),
        }
    }
}

impl fmt::Display for ValueType {
    /// In FTN3's words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::Null => f.write_str("null"),
            Self::Boolean => f.write_str("boolean"),
            Self::Integer(range) => write!(f, "integer{range}"),
            Self::Number(range) => write!(f, "number{range}"),
            Self::Text { length, pattern: None } => write!(f, "string{length}"),
            Self::Text { length, pattern: Some(pattern) } => {
                write!(f, "string{length} like {pattern}")
            }
            Self::Data(length) => write!(f, "data{length}"),
            Self::List { length, element } => write!(f, "array{length} of {element}"),
            Self::Map { fields, others: Some(others) } if fields.is_empty() => {
                write!(f, "map of {others}")
            }
            Self::Map { .. } => f.write_str("map"),
            Self::Enum(items) | Self::Set(items) => {
                f.write_str(if matches!(self, Self::Enum(_)) { "enum" } else { "set" })?;
                let items: Vec<String> = items.iter().map(Value::to_string).collect();
                write!(f, " of {}", items.join(", "))
            }
            Self::AnyOf(types) => {
                let types: Vec<String> = types.iter().map(Self::to_string).collect();
                f.write_str(&types.join(" or "))
            }
            Self::Named(name, inner) => match inner.bare() {
                Self::Map { .. } => write!(f, "map ({name})"),
                inner => inner.fmt(f),
            },
            Self::Recursive(name) => write!(f, "{name}, which contains itself"),
        }
    }
}
