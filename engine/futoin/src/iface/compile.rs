//! Declared types into checkers: names resolved, chains of custom types folded, limits checked.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    check::{Check, Field, Items, Range, Span},
    decl::{Item, Limits, Origin, TypeDecl, TypeRef},
    error::{LoadError, Rule},
    pattern::Pattern,
};

/// Deepest nesting of custom types, counting bases and contents. Published definitions stay below
/// eight; the limit keeps the compiler's and the checkers' recursion within any stack.
const MAX_TYPE_DEPTH: usize = 32;

/// Turns the types of one merged definition into checkers, each custom type once.
pub(super) struct Compiler<'a> {
    types: &'a BTreeMap<String, TypeDecl>,
    done: BTreeMap<&'a str, Arc<Check>>,
    /// The custom types being compiled now, outermost first.
    open: Vec<&'a str>,
}

/// Where a type is referred to, for errors.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) origin: &'a Origin,
    /// A JSON Pointer into that file.
    pub(super) pointer: &'a str,
}

impl Place<'_> {
    pub(super) fn fail(self, rule: Rule) -> LoadError {
        self.origin.fail(self.pointer.to_owned(), rule)
    }
}

impl<'a> Compiler<'a> {
    pub(super) fn new(types: &'a BTreeMap<String, TypeDecl>) -> Self {
        Self { types, done: BTreeMap::new(), open: Vec::new() }
    }

    /// Compiles every custom type, used or not, so that no mistake stays hidden.
    pub(super) fn all(&mut self) -> Result<(), LoadError> {
        for (name, decl) in self.types {
            let pointer = format!("/types/{name}");
            self.custom(name, Place { origin: &decl.origin, pointer: &pointer })?;
        }
        Ok(())
    }

    /// The checker of a type, wherever it is referred to.
    pub(super) fn check(&mut self, kind: &TypeRef, at: Place<'_>) -> Result<Arc<Check>, LoadError> {
        match kind {
            TypeRef::Named(name) => match Base::of(name) {
                Some(base) => self.standard(base, &Limits::default(), at).map(Arc::new),
                None => self.custom(name, at),
            },
            TypeRef::AnyOf(names) => self.any_of(names, at).map(Arc::new),
        }
    }

    fn any_of(&mut self, names: &[String], at: Place<'_>) -> Result<Check, LoadError> {
        let kinds = names.iter().map(|name| self.check(&TypeRef::Named(name.clone()), at));
        Ok(Check::AnyOf(kinds.collect::<Result<_, _>>()?))
    }

    fn custom(&mut self, name: &str, at: Place<'_>) -> Result<Arc<Check>, LoadError> {
        if let Some(done) = self.done.get(name) {
            return Ok(Arc::clone(done));
        }
        let types = self.types;
        let Some((name, decl)) = types.get_key_value(name) else {
            return Err(at.fail(Rule::UnknownType(name.to_owned())));
        };
        self.enter(name, at)?;
        let check = Arc::new(self.fold(name, decl)?);
        self.open.pop();
        self.done.insert(name, Arc::clone(&check));
        Ok(check)
    }

    fn enter(&mut self, name: &'a str, at: Place<'_>) -> Result<(), LoadError> {
        if let Some(start) = self.open.iter().position(|open| *open == name) {
            let chain = self.open.iter().skip(start).chain([&name]).copied();
            let chain = chain.collect::<Vec<_>>().join(" -> ");
            return Err(at.fail(Rule::RecursiveType(chain)));
        }
        if self.open.len() == MAX_TYPE_DEPTH {
            return Err(at.fail(Rule::TypeDepth(MAX_TYPE_DEPTH)));
        }
        self.open.push(name);
        Ok(())
    }

    /// Follows the chain of bases down to a standard type, collecting limits on the way: what a
    /// type says itself replaces what its base says (as released executors do).
    fn fold(&mut self, name: &'a str, decl: &'a TypeDecl) -> Result<Check, LoadError> {
        let pointer = format!("/types/{name}");
        let at = Place { origin: &decl.origin, pointer: &pointer };
        let depth = self.open.len();
        let mut limits = decl.limits.clone();
        let mut base = &decl.base;
        let check = loop {
            match base {
                TypeRef::AnyOf(names) => {
                    if let Some(constraint) = limits.names().next() {
                        let base = "a list of types";
                        return Err(at.fail(Rule::Inapplicable { constraint, base }));
                    }
                    break self.any_of(names, at)?;
                }
                TypeRef::Named(next) => {
                    if let Some(base) = Base::of(next) {
                        base.gate(&decl.limits, at.origin).map_err(|rule| at.fail(rule))?;
                        break self.standard(base, &limits, at)?;
                    }
                    let Some((next, inner)) = self.types.get_key_value(next.as_str()) else {
                        return Err(at.fail(Rule::UnknownType(next.clone())));
                    };
                    self.enter(next, at)?;
                    limits = limits.over(&inner.limits);
                    base = &inner.base;
                }
            }
        };
        self.open.truncate(depth);
        Ok(check)
    }

    /// A standard type with limits (FTN3 §1.8.1).
    fn standard(&mut self, base: Base, limits: &Limits, at: Place<'_>) -> Result<Check, LoadError> {
        base.knows(limits).map_err(|rule| at.fail(rule))?;
        let range = Range {
            min: limits.min.unwrap_or(f64::NEG_INFINITY),
            max: limits.max.unwrap_or(f64::INFINITY),
        };
        let length = Span {
            min: limits.minlen.unwrap_or_default(),
            max: limits.maxlen.unwrap_or(usize::MAX),
        };
        if range.min > range.max || length.min > length.max {
            return Err(at.fail(Rule::EmptyRange));
        }
        Ok(match base {
            Base::Any => Check::Any,
            Base::Boolean => Check::Boolean,
            Base::Integer => Check::Integer(range),
            Base::Number => Check::Number(range),
            Base::Text => {
                let regex = limits.regex.as_deref().map(regex).transpose();
                Check::Text { length, regex: regex.map_err(|rule| at.fail(rule))? }
            }
            Base::Data => Check::Data(length),
            Base::List => Check::List { length, element: self.element(limits, at)? },
            Base::Map => {
                Check::Map { fields: self.fields(limits, at)?, element: self.element(limits, at)? }
            }
            Base::Enum => Check::Enum(members(limits).map_err(|rule| at.fail(rule))?),
            Base::Set => Check::Set(members(limits).map_err(|rule| at.fail(rule))?),
        })
    }

    fn element(&mut self, limits: &Limits, at: Place<'_>) -> Result<Option<Arc<Check>>, LoadError> {
        limits.elemtype.as_ref().map(|kind| self.check(kind, at)).transpose()
    }

    fn fields(&mut self, limits: &Limits, at: Place<'_>) -> Result<Box<[Field]>, LoadError> {
        let fields = limits.fields.iter().flatten().map(|field| {
            let pointer = format!("{}/fields/{}", at.pointer, field.name);
            let check = self.check(&field.kind, Place { pointer: &pointer, ..at })?;
            Ok(Field { name: field.name.as_str().into(), check, optional: field.optional })
        });
        fields.collect()
    }
}

/// The standard types (FTN3 §1.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Base {
    Any,
    Boolean,
    Integer,
    Number,
    Text,
    Data,
    List,
    Map,
    Enum,
    Set,
}

impl Base {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "any" => Self::Any,
            "boolean" => Self::Boolean,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "string" => Self::Text,
            "data" => Self::Data,
            "array" => Self::List,
            "map" => Self::Map,
            "enum" => Self::Enum,
            "set" => Self::Set,
            _ => return None,
        })
    }

    /// The type's name and the limits it knows.
    fn profile(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::Any => ("any", &[]),
            Self::Boolean => ("boolean", &[]),
            Self::Integer => ("integer", &["min", "max"]),
            Self::Number => ("number", &["min", "max"]),
            Self::Text => ("string", &["minlen", "maxlen", "regex"]),
            Self::Data => ("data", &["minlen", "maxlen"]),
            Self::List => ("array", &["minlen", "maxlen", "elemtype"]),
            Self::Map => ("map", &["fields", "elemtype"]),
            Self::Enum => ("enum", &["items"]),
            Self::Set => ("set", &["items"]),
        }
    }

    fn knows(self, limits: &Limits) -> Result<(), Rule> {
        let (base, known) = self.profile();
        if let Some(constraint) = limits.names().find(|name| !known.contains(name)) {
            return Err(Rule::Inapplicable { constraint, base });
        }
        // FTN3 §1.8.1: elemtype is for a map without fields.
        if limits.fields.is_some() && limits.elemtype.is_some() {
            return Err(Rule::Inapplicable { constraint: "elemtype", base: "a map with fields" });
        }
        Ok(())
    }

    /// Refuses limits that are newer than the file that sets them (FTN3 §2.6).
    fn gate(self, own: &Limits, origin: &Origin) -> Result<(), Rule> {
        if self == Self::Text && (own.minlen.is_some() || own.maxlen.is_some()) {
            origin.gate(5, "the length of a string")?;
        }
        if self == Self::Map && own.elemtype.is_some() {
            origin.gate(6, "elemtype of a map")?;
        }
        Ok(())
    }
}

fn regex(pattern: &str) -> Result<Pattern, Rule> {
    Pattern::new(pattern).map_err(Rule::Regex)
}

fn members(limits: &Limits) -> Result<Items, Rule> {
    let Some(items) = &limits.items else {
        return Err(Rule::Missing("items"));
    };
    let mut numbers = Vec::new();
    let mut texts: Vec<Box<str>> = Vec::new();
    for item in items {
        match item {
            Item::Number(number) => numbers.push(*number),
            Item::Text(text) => texts.push(text.as_str().into()),
        }
    }
    numbers.sort_unstable();
    texts.sort_unstable();
    Ok(Items { numbers: numbers.into(), texts: texts.into() })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::{Map, Value, json};

    use super::super::fixture::{errors, iface, load};

    fn types(types: Value) -> Value {
        iface(json!({ "types": types }))
    }

    #[test]
    fn types_must_be_known_finite_and_consistent() {
        let one = |kind: Value| types(json!({ "T": kind }));
        let cases = [
            one(json!("Missing")),
            one(json!({"type": "Missing", "min": 1})),
            one(json!({"type": "array", "elemtype": "Missing"})),
            one(json!({"type": "map", "fields": {"a": ["any", "Missing"]}})),
            iface(json!({"funcs": {"f": {"params": {"a": "Missing"}}}})),
            iface(json!({"funcs": {"f": {"result": {"a": "Missing"}}}})),
            iface(json!({"funcs": {"f": {"result": "Missing"}}})),
            iface(json!({"funcs": {"f": {"params": {"a": "enum"}}}})),
            iface(json!({"funcs": {"f": {"params": {"a": {"type": "integer", "default": "1"}}}}})),
            one(json!("T")),
            one(json!({"type": "T"})),
            one(json!(["T", "integer"])),
            one(json!({"type": "map", "fields": {"a": {"type": "T", "optional": true}}})),
            types(json!({"A": "B", "B": {"type": "C"}, "C": "A"})),
            types(json!({"A": {"type": "array", "elemtype": "B"}, "B": ["any", "C"],
                "C": {"type": "map", "elemtype": "A"}})),
            one(json!({"type": "integer", "maxlen": 1})),
            one(json!({"type": "string", "max": 1})),
            one(json!({"type": "boolean", "items": [1]})),
            one(json!({"type": "array", "fields": {}})),
            types(json!({"A": ["integer", "string"], "B": {"type": "A", "max": 1}})),
            one(json!({"type": "map", "fields": {}, "elemtype": "any"})),
            one(json!({"type": "enum"})),
            one(json!({"type": "integer", "min": 2, "max": 1})),
            types(json!({"A": {"type": "string", "minlen": 5}, "B": {"type": "A", "maxlen": 4}})),
            one(json!({"type": "string", "regex": "("})),
            one(json!({"type": "string", "regex": "(".repeat(4000)})),
            one(json!({"type": "string", "regex": "a".repeat(4097)})),
        ];
        expect![[r#"
            a.b-1.0-iface.json: /types/T: unknown type Missing
            a.b-1.0-iface.json: /types/T: unknown type Missing
            a.b-1.0-iface.json: /types/T: unknown type Missing
            a.b-1.0-iface.json: /types/T/fields/a: unknown type Missing
            a.b-1.0-iface.json: /funcs/f/params/a: unknown type Missing
            a.b-1.0-iface.json: /funcs/f/result/a: unknown type Missing
            a.b-1.0-iface.json: /funcs/f/result: unknown type Missing
            a.b-1.0-iface.json: /funcs/f/params/a: has no items
            a.b-1.0-iface.json: /funcs/f/params/a: the default is not of the parameter's type
            a.b-1.0-iface.json: /types/T: type contains itself: T -> T
            a.b-1.0-iface.json: /types/T: type contains itself: T -> T
            a.b-1.0-iface.json: /types/T: type contains itself: T -> T
            a.b-1.0-iface.json: /types/T/fields/a: type contains itself: T -> T
            a.b-1.0-iface.json: /types/A: type contains itself: A -> B -> C -> A
            a.b-1.0-iface.json: /types/C: type contains itself: A -> B -> C -> A
            a.b-1.0-iface.json: /types/T: maxlen does not apply to integer
            a.b-1.0-iface.json: /types/T: max does not apply to string
            a.b-1.0-iface.json: /types/T: items does not apply to boolean
            a.b-1.0-iface.json: /types/T: fields does not apply to array
            a.b-1.0-iface.json: /types/B: max does not apply to a list of types
            a.b-1.0-iface.json: /types/T: elemtype does not apply to a map with fields
            a.b-1.0-iface.json: /types/T: has no items
            a.b-1.0-iface.json: /types/T: the lower limit is above the upper one
            a.b-1.0-iface.json: /types/B: the lower limit is above the upper one
            a.b-1.0-iface.json: /types/T: is not an ECMAScript regular expression: Unbalanced parenthesis
            a.b-1.0-iface.json: /types/T: is not an ECMAScript regular expression: Regular expression is too deeply nested
            a.b-1.0-iface.json: /types/T: is not an ECMAScript regular expression: longer than 4096 bytes
        "#]].assert_eq(&errors(cases));
    }

    /// `T0` refers to `T1` and so on; the last one is an integer.
    fn chain(length: usize, link: impl Fn(String) -> Value) -> Value {
        let mut all: Map<String, Value> =
            (0..length).map(|n| (format!("T{n}"), link(format!("T{}", n + 1)))).collect();
        all.insert(format!("T{length}"), json!("integer"));
        types(Value::Object(all))
    }

    #[test]
    fn deep_types_are_refused_however_they_nest() {
        let links: [fn(String) -> Value; 4] = [
            |next| json!(next),
            |next| json!({"type": "array", "elemtype": next}),
            |next| json!([next, "string"]),
            |next| json!({"type": "map", "fields": {"a": next, "b": next}}),
        ];
        for link in links {
            assert!(load(&[chain(20, link)]).is_ok(), "{}", link(String::new()));
            let text = load(&[chain(5000, link)]).unwrap_err().to_string();
            assert!(text.ends_with("types are nested more than 32 deep"), "{text}");
        }
    }
}
