//! Declarations: what a definition says, before types are resolved into checkers.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Map, Value, json};

use super::{
    error::{LoadError, Rule},
    name::{IfaceVer, Version},
};

/// One definition as its file has it; `types`, `funcs` and nothing else grow by merging.
#[derive(Debug)]
pub(super) struct Module {
    pub(super) origin: Arc<Origin>,
    pub(super) types: BTreeMap<String, TypeDecl>,
    pub(super) funcs: BTreeMap<String, FuncDecl>,
    pub(super) requires: Vec<String>,
    pub(super) inherit: Option<IfaceVer>,
    pub(super) imports: Vec<IfaceVer>,
}

/// The definition a declaration was written in.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) id: IfaceVer,
    pub(super) file: String,
    /// `ftn3rev` of that file.
    pub(super) revision: Version,
}

impl Origin {
    pub(super) fn fail(&self, pointer: String, rule: Rule) -> LoadError {
        LoadError::new(&self.file, pointer, rule)
    }

    /// Refuses a feature of FTN3 1.`since` in a file written for an older revision (FTN3 §2.6).
    pub(super) fn gate(&self, since: u32, feature: &'static str) -> Result<(), Rule> {
        let since = Version::new(1, since);
        if self.revision < since { Err(Rule::NewerFeature { feature, since }) } else { Ok(()) }
    }
}

/// An entry of `types` (FTN3 §1.8.1).
#[derive(Debug, Clone)]
pub(super) struct TypeDecl {
    pub(super) base: TypeRef,
    pub(super) limits: Limits,
    pub(super) origin: Arc<Origin>,
}

/// A type by name, or a list of alternatives (FTN3 §1.8.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TypeRef {
    Named(String),
    AnyOf(Vec<String>),
}

impl TypeRef {
    /// As a definition writes it.
    pub(super) fn to_value(&self) -> Value {
        match self {
            Self::Named(name) => name.as_str().into(),
            Self::AnyOf(names) => names.iter().map(String::as_str).collect(),
        }
    }
}

impl TypeDecl {
    /// As a definition writes it.
    pub(super) fn to_value(&self) -> Value {
        let Limits { min, max, minlen, maxlen, regex, elemtype, fields, items } = &self.limits;
        let fields = fields.as_ref().map(|fields| {
            let fields = fields.iter().map(|field| {
                let kind = field.kind.to_value();
                (field.name.clone(), json!({ "type": kind, "optional": field.optional }))
            });
            fields.collect::<Map<_, _>>().into()
        });
        let constraints = [
            ("min", min.map(number)),
            ("max", max.map(number)),
            ("minlen", minlen.map(Value::from)),
            ("maxlen", maxlen.map(Value::from)),
            ("regex", regex.as_deref().map(Value::from)),
            ("elemtype", elemtype.as_ref().map(TypeRef::to_value)),
            ("fields", fields),
            ("items", items.as_ref().map(|items| items.iter().map(Item::to_value).collect())),
        ];
        let constraints = constraints
            .into_iter()
            .filter_map(|(name, value)| value.map(|value| (name.to_owned(), value)));
        [("type".to_owned(), self.base.to_value())].into_iter().chain(constraints).collect()
    }
}

/// A limit as people write it, without a fraction where there is none.
fn number(limit: f64) -> Value {
    let text = limit.to_string();
    text.parse::<i64>().map_or_else(|_| limit.into(), Value::from)
}

/// The constraints a custom type may add to its base (FTN3 §1.8.1).
#[derive(Debug, Clone, Default)]
pub(super) struct Limits {
    pub(super) min: Option<f64>,
    pub(super) max: Option<f64>,
    pub(super) minlen: Option<usize>,
    pub(super) maxlen: Option<usize>,
    pub(super) regex: Option<String>,
    pub(super) elemtype: Option<TypeRef>,
    pub(super) fields: Option<Vec<FieldDecl>>,
    pub(super) items: Option<Vec<Item>>,
}

impl Limits {
    /// These limits where they are set, else those of `base`: a custom type refines the type it is
    /// based on.
    pub(super) fn over(self, base: &Self) -> Self {
        Self {
            min: self.min.or(base.min),
            max: self.max.or(base.max),
            minlen: self.minlen.or(base.minlen),
            maxlen: self.maxlen.or(base.maxlen),
            regex: self.regex.or_else(|| base.regex.clone()),
            elemtype: self.elemtype.or_else(|| base.elemtype.clone()),
            fields: self.fields.or_else(|| base.fields.clone()),
            items: self.items.or_else(|| base.items.clone()),
        }
    }

    /// The names of the limits that are set.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        [
            ("min", self.min.is_some()),
            ("max", self.max.is_some()),
            ("minlen", self.minlen.is_some()),
            ("maxlen", self.maxlen.is_some()),
            ("regex", self.regex.is_some()),
            ("elemtype", self.elemtype.is_some()),
            ("fields", self.fields.is_some()),
            ("items", self.items.is_some()),
        ]
        .into_iter()
        .filter_map(|(name, set)| set.then_some(name))
    }
}

/// A field of a map type.
#[derive(Debug, Clone)]
pub(super) struct FieldDecl {
    pub(super) name: String,
    pub(super) kind: TypeRef,
    pub(super) optional: bool,
}

/// A member of an enum or set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item {
    Number(i32),
    Text(String),
}

impl Item {
    fn to_value(&self) -> Value {
        match self {
            Self::Number(number) => (*number).into(),
            Self::Text(text) => text.as_str().into(),
        }
    }
}

impl ResultDecl {
    /// As a definition writes it; `None` for no result.
    pub(super) fn to_value(&self) -> Option<Value> {
        match self {
            Self::Nothing => None,
            Self::Whole(kind) => Some(kind.to_value()),
            Self::Variables(variables) => {
                let variable = |decl: &ParamDecl| (decl.name.clone(), decl.kind.to_value());
                Some(variables.iter().map(variable).collect::<Map<_, _>>().into())
            }
        }
    }
}

/// An entry of `funcs`.
#[derive(Debug, Clone)]
pub(super) struct FuncDecl {
    pub(super) origin: Arc<Origin>,
    /// In the order of the file.
    pub(super) params: Vec<ParamDecl>,
    pub(super) result: ResultDecl,
    pub(super) throws: Vec<String>,
    pub(super) heavy: bool,
    pub(super) seclvl: Option<String>,
    pub(super) rawupload: bool,
    pub(super) rawresult: bool,
    /// In bytes.
    pub(super) maxreqsize: usize,
    /// In bytes.
    pub(super) maxrspsize: usize,
}

/// A parameter, or a result variable if it has no default.
#[derive(Debug, Clone)]
pub(super) struct ParamDecl {
    pub(super) name: String,
    pub(super) kind: TypeRef,
    pub(super) default: Option<Value>,
}

/// What a function answers.
#[derive(Debug, Clone)]
pub(super) enum ResultDecl {
    Nothing,
    /// FTN3 §1.8.5.
    Whole(TypeRef),
    Variables(Vec<ParamDecl>),
}
