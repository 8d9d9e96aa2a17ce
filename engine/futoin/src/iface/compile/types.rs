//! Declared types into checkers: names resolved, chains of custom types folded, limits checked.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::iface::check::{Check, CheckedField, LengthRange, Members, NumberRange, Pattern};
use crate::iface::error::{LoadError, Rule};
use crate::iface::parse::{
    Constraint, Constraints, FieldDecl, SourceFile, StandardType, TypeDecl, TypeMember, TypeRef,
};

/// Deepest nesting of custom types, counting bases and contents. Published definitions stay below
/// eight; the limit keeps the compiler's and the checkers' recursion within any stack.
const MAX_TYPE_DEPTH: usize = 32;

/// Turns the types of one merged definition into checkers, each custom type once.
pub(crate) struct TypeCompiler<'a> {
    types: &'a BTreeMap<String, TypeDecl>,
    done: BTreeMap<&'a str, Arc<Check>>,
    /// The custom types being compiled now, outermost first.
    compiling: Vec<&'a str>,
}

/// Where a type is referred to, for errors.
#[derive(Clone, Copy)]
pub(crate) struct Location<'a> {
    pub(crate) file: &'a SourceFile,
    /// A JSON Pointer into that file.
    pub(crate) pointer: &'a str,
}

impl Location<'_> {
    pub(crate) fn fail(self, rule: Rule) -> LoadError {
        self.file.fail(self.pointer.to_owned(), rule)
    }
}

impl<'a> TypeCompiler<'a> {
    pub(crate) fn new(types: &'a BTreeMap<String, TypeDecl>) -> Self {
        Self { types, done: BTreeMap::new(), compiling: Vec::new() }
    }

    /// Compiles every custom type, used or not, so that no mistake stays hidden.
    pub(crate) fn all(&mut self) -> Result<(), LoadError> {
        for (name, decl) in self.types {
            let pointer = format!("/types/{name}");
            self.custom(name, Location { file: &decl.file, pointer: &pointer })?;
        }
        Ok(())
    }

    /// The checkers of all custom types, by name.
    pub(crate) fn finish(self) -> BTreeMap<&'a str, Arc<Check>> {
        self.done
    }

    /// The checker of a type, wherever it is referred to.
    pub(crate) fn check(
        &mut self,
        type_ref: &TypeRef,
        at: Location<'_>,
    ) -> Result<Arc<Check>, LoadError> {
        match type_ref {
            TypeRef::Named(name) => match StandardType::named(name) {
                Some(base) => self.standard(base, &Constraints::default(), at).map(Arc::new),
                None => self.custom(name, at),
            },
            TypeRef::AnyOf(names) => self.any_of(names, at).map(Arc::new),
        }
    }

    fn any_of(&mut self, names: &[String], at: Location<'_>) -> Result<Check, LoadError> {
        let checks = names.iter().map(|name| self.check(&TypeRef::Named(name.clone()), at));
        Ok(Check::AnyOf(checks.collect::<Result<_, _>>()?))
    }

    fn custom(&mut self, name: &str, at: Location<'_>) -> Result<Arc<Check>, LoadError> {
        if let Some(done) = self.done.get(name) {
            return Ok(Arc::clone(done));
        }
        let types = self.types;
        let Some((name, decl)) = types.get_key_value(name) else {
            return Err(at.fail(Rule::UnknownType(name.to_owned())));
        };
        self.enter(name, at)?;
        let check = Arc::new(self.fold(name, decl)?);
        self.compiling.pop();
        self.done.insert(name, Arc::clone(&check));
        Ok(check)
    }

    fn enter(&mut self, name: &'a str, at: Location<'_>) -> Result<(), LoadError> {
        if let Some(start) = self.compiling.iter().position(|compiling| *compiling == name) {
            let chain = self.compiling.iter().skip(start).chain([&name]).copied();
            let chain = chain.collect::<Vec<_>>().join(" -> ");
            return Err(at.fail(Rule::RecursiveType(chain)));
        }
        if self.compiling.len() == MAX_TYPE_DEPTH {
            return Err(at.fail(Rule::TypeDepth(MAX_TYPE_DEPTH)));
        }
        self.compiling.push(name);
        Ok(())
    }

    /// Follows the chain of bases down to a standard type and collects constraints on the way: the
    /// constraints of a type replace the same ones of its base (as released executors do).
    fn fold(&mut self, name: &'a str, decl: &'a TypeDecl) -> Result<Check, LoadError> {
        let pointer = format!("/types/{name}");
        let at = Location { file: &decl.file, pointer: &pointer };
        let depth = self.compiling.len();
        let mut constraints = decl.constraints.clone();
        let mut base = &decl.base;
        let check = loop {
            match base {
                TypeRef::AnyOf(names) => {
                    if let Some(constraint) = constraints.names().next() {
                        let base = "a list of types";
                        return Err(at.fail(Rule::Inapplicable { constraint, base }));
                    }
                    break self.any_of(names, at)?;
                }
                TypeRef::Named(next) => {
                    if let Some(base) = StandardType::named(next) {
                        let revision = decl.constraints.check_revision(base, at.file);
                        revision.map_err(|rule| at.fail(rule))?;
                        break self.standard(base, &constraints, at)?;
                    }
                    let Some((next, inner)) = self.types.get_key_value(next.as_str()) else {
                        return Err(at.fail(Rule::UnknownType(next.clone())));
                    };
                    self.enter(next, at)?;
                    constraints.inherit(&inner.constraints);
                    base = &inner.base;
                }
            }
        };
        self.compiling.truncate(depth);
        Ok(check)
    }

    /// A standard type with its constraints (FTN3 §1.8.1).
    fn standard(
        &mut self,
        base: StandardType,
        constraints: &Constraints,
        at: Location<'_>,
    ) -> Result<Check, LoadError> {
        constraints.check_base(base).map_err(|rule| at.fail(rule))?;
        let Checks { range, length, pattern, element, fields, members } =
            self.checks(constraints, at)?;
        if range.min > range.max || length.min > length.max {
            return Err(at.fail(Rule::EmptyRange));
        }
        let members = || members.ok_or_else(|| at.fail(Rule::Missing("items")));
        Ok(match base {
            StandardType::Any => Check::Any,
            StandardType::Boolean => Check::Boolean,
            StandardType::Integer => Check::Integer(range),
            StandardType::Number => Check::Number(range),
            StandardType::String => Check::String { length, pattern },
            StandardType::Data => Check::Data(length),
            StandardType::Array => Check::Array { length, element },
            StandardType::Map => Check::Map { fields, element },
            StandardType::Enum => Check::Enum(members()?),
            StandardType::Set => Check::Set(members()?),
        })
    }

    /// The check of each constraint.
    fn checks(&mut self, constraints: &Constraints, at: Location<'_>) -> Result<Checks, LoadError> {
        let mut checks = Checks::default();
        for constraint in constraints.iter() {
            match constraint {
                Constraint::Min(limit) => checks.range.min = *limit,
                Constraint::Max(limit) => checks.range.max = *limit,
                Constraint::MinLength(limit) => checks.length.min = *limit,
                Constraint::MaxLength(limit) => checks.length.max = *limit,
                Constraint::Regex(regex) => {
                    let pattern = Pattern::new(regex).map_err(|why| at.fail(Rule::Regex(why)))?;
                    checks.pattern = Some(pattern);
                }
                Constraint::ElementType(element) => {
                    checks.element = Some(self.check(element, at)?);
                }
                Constraint::Fields(fields) => checks.fields = self.fields(fields, at)?,
                Constraint::Items(items) => checks.members = Some(members(items)),
            }
        }
        Ok(checks)
    }

    fn fields(
        &mut self,
        fields: &[FieldDecl],
        at: Location<'_>,
    ) -> Result<Box<[CheckedField]>, LoadError> {
        let fields = fields.iter().map(|field| {
            let pointer = format!("{}/fields/{}", at.pointer, field.name);
            let check = self.check(&field.type_ref, Location { pointer: &pointer, ..at })?;
            Ok(CheckedField { name: field.name.as_str().into(), check, optional: field.optional })
        });
        fields.collect()
    }
}

/// The checks of the constraints of one type, whatever its base.
#[derive(Default)]
struct Checks {
    range: NumberRange,
    length: LengthRange,
    pattern: Option<Pattern>,
    element: Option<Arc<Check>>,
    fields: Box<[CheckedField]>,
    members: Option<Members>,
}

fn members(items: &[TypeMember]) -> Members {
    let mut numbers = Vec::new();
    let mut texts: Vec<Box<str>> = Vec::new();
    for item in items {
        match item {
            TypeMember::Number(number) => numbers.push(*number),
            TypeMember::Text(text) => texts.push(text.as_str().into()),
        }
    }
    numbers.sort_unstable();
    texts.sort_unstable();
    Members { numbers: numbers.into(), texts: texts.into() }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::{Map, Value, json};

    use crate::iface::fixture::{errors, iface, load};

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
            a.b-1.0-iface.json: /types/T: is not a supported ECMAScript regular expression: unclosed group, at character 1
            a.b-1.0-iface.json: /types/T: is not a supported ECMAScript regular expression: unclosed group, at character 4000
            a.b-1.0-iface.json: /types/T: is not a supported ECMAScript regular expression: longer than 4096 bytes
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
