//! Definitions written down from Rust types.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use super::value_type::{Field, Length, Range, ValueType};
use super::{names, schema};
use crate::iface::{Definition, IfaceVer, LoadError, Loader, Source, event_type};
use crate::security::SecurityLevel;

/// A definition (FTN3) that is written down from the Rust types of its functions.
///
/// ```
/// use asyncsteps_futoin::typed::Interface;
/// use schemars::JsonSchema;
///
/// #[derive(JsonSchema)]
/// struct Charge {
///     customer: String,
///     #[schemars(range(min = 1))]
///     amount: i32,
///     note: Option<String>,
/// }
/// #[derive(JsonSchema)]
/// struct Charged { charge: i32 }
///
/// let mut payments = Interface::new("acme.payments:1.0".parse()?);
/// payments.function::<Charge, Charged>("charge").throws(["CardDeclined"]);
/// let definition = payments.definition()?;
/// assert!(definition.function("charge").is_some_and(|charge| charge.throws("CardDeclined")));
/// println!("{:#}", payments.to_json()?); // acme.payments-1.0-iface.json
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// | Rust | FTN3 |
/// |---|---|
/// | `bool`, `String`, `f64`, [`Data`](crate::message::Data) | `boolean`, `string`, `number`, `data` |
/// | `i32` and smaller integers | `integer` with `min` and `max` |
/// | `u32`, `i64`, `u64` as parameters | `integer` from what the type takes to what 32 bits take |
/// | `Vec<T>`, `HashMap<String, T>` | `array`, `map` with `elemtype` |
/// | a struct | `map` with `fields` |
/// | an enum of unit variants; a `BTreeSet` of it | `enum`; `set` |
/// | another enum | a list of alternatives |
/// | `Option<T>` | a parameter with the default null, an optional field |
/// | `serde_json::Value` | `any` |
///
/// Constraints of `schemars` (`range`, `length`, `regex`) become constraints of FTN3, and doc comments of
/// parameters and result variables become their `desc`.
#[derive(Clone, Debug)]
pub struct Interface {
    id: IfaceVer,
    functions: BTreeMap<String, DeclaredFunction>,
    requires: Vec<&'static str>,
}

/// A function of an [`Interface`].
#[derive(Clone, Debug)]
pub struct DeclaredFunction {
    params: ValueType,
    result: ValueType,
    /// What it emits.
    event: Option<ValueType>,
    /// `None` unless it is said.
    throws: Option<Vec<String>>,
    seclvl: Option<SecurityLevel>,
    heavy: bool,
    rawupload: bool,
    rawresult: bool,
}

/// A Rust type has values that no type of FTN3 has, or a name is none of FTN3.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unwritable {
    /// Where: `parameter amount of charge`.
    pub at: String,
    /// The part that cannot be written, and what to use in its place.
    pub what: String,
}

impl fmt::Display for Unwritable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.what)
    }
}

impl std::error::Error for Unwritable {}

impl DeclaredFunction {
    /// The codes of errors that callers see as they are (FTN3 §1.9). A function for which this is not said has those
    /// of its service, from its handler; an empty list says that there are none.
    pub fn throws<C: Into<String>>(&mut self, codes: impl IntoIterator<Item = C>) -> &mut Self {
        let codes = codes.into_iter().map(Into::into);
        self.throws.get_or_insert_default().extend(codes);
        self
    }

    /// [`throws`](Self::throws) unless it was said.
    pub fn throws_by_default<C: Into<String>>(
        &mut self,
        codes: impl IntoIterator<Item = C>,
    ) -> &mut Self {
        if self.throws.is_none() { self.throws(codes) } else { self }
    }

    /// How well a caller must be known; others get PleaseReauth (FTN3 §1.12). It does not say who may call: the
    /// function answers Unauthorized to those who may not.
    pub fn seclvl(&mut self, level: SecurityLevel) -> &mut Self {
        self.seclvl = Some(level);
        self
    }

    /// It takes raw data in addition to its parameters (FTN3 §2.8 `rawupload`).
    pub fn rawupload(&mut self) -> &mut Self {
        self.rawupload = true;
        self
    }

    /// Its result is raw data (FTN3 §2.8 `rawresult`).
    pub fn rawresult(&mut self) -> &mut Self {
        self.rawresult = true;
        self
    }

    /// It emits such events while it runs: the [type](Definition::event_type) that is named after it.
    pub fn emits<E: JsonSchema>(&mut self) -> &mut Self {
        self.event = Some(schema::written::<E>());
        self
    }

    /// Requests take long (FTN3 §2.8).
    pub fn heavy(&mut self) -> &mut Self {
        self.heavy = true;
        self
    }
}

impl Interface {
    /// An interface without functions, for callers that are known.
    #[must_use]
    pub fn new(id: IfaceVer) -> Self {
        Self { id, functions: BTreeMap::new(), requires: Vec::new() }
    }

    /// Its name and version.
    #[must_use]
    pub fn id(&self) -> &IfaceVer {
        &self.id
    }

    /// The function of this name, if it is declared.
    pub fn declared(&mut self, function: &str) -> Option<&mut DeclaredFunction> {
        self.functions.get_mut(function)
    }

    /// Declares a function that takes the fields of `P` as its parameters and returns `R`; `()` for
    /// none. The fields of a struct are the variables of the result.
    pub fn function<P: JsonSchema, R: JsonSchema>(&mut self, name: &str) -> &mut DeclaredFunction {
        let declared = DeclaredFunction {
            params: schema::read::<P>(),
            result: schema::written::<R>(),
            event: None,
            throws: None,
            seclvl: None,
            heavy: false,
            rawupload: false,
            rawresult: false,
        };
        self.functions.remove(name);
        self.functions.entry(name.to_owned()).or_insert(declared)
    }

    /// Callers need no credentials (FTN3 §2.4 `AllowAnonymous`).
    pub fn allow_anonymous(&mut self) -> &mut Self {
        self.requires.push("AllowAnonymous");
        self
    }

    /// The definition, to be passed to an executor.
    ///
    /// # Errors
    /// [`InterfaceError`] if a type cannot be written in FTN3, or a name breaks its rules.
    pub fn definition(&self) -> Result<Arc<Definition>, InterfaceError> {
        let text = self.to_json()?.to_string();
        let file = format!("{}-{}-iface.json", self.id.iface(), self.id.version());
        Ok(Loader::new([Source::texts([(file, text)])]).load(&self.id)?)
    }

    /// The text of the definition, as other languages read it: `{iface}-{version}-iface.json`.
    ///
    /// # Errors
    /// [`Unwritable`] if a type cannot be written in FTN3.
    pub fn to_json(&self) -> Result<Value, Unwritable> {
        let (mut types, mut funcs) = (TypeEntries::default(), Map::new());
        for (name, function) in &self.functions {
            funcs.insert(name.clone(), types.function(name, function)?);
        }
        Ok(json!({
            "iface": self.id.iface(),
            "version": self.id.version().to_string(),
            "ftn3rev": "1.9",
            "types": types.0,
            "funcs": funcs,
            "requires": self.requires,
        }))
    }
}

/// Why an [`Interface`] is no definition.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum InterfaceError {
    /// A type or a name cannot be written in FTN3.
    #[error(transparent)]
    Unwritable(#[from] Unwritable),
    /// A constraint breaks the rules of FTN3.
    #[error("the definition breaks a rule of FTN3")]
    Load(#[from] LoadError),
}

crate::debug_as_report!(InterfaceError);

/// The entries of `types` so far.
#[derive(Default)]
struct TypeEntries(Map<String, Value>);

/// Where a type is written: for messages, and for the name of a type that has none.
struct At<'a> {
    text: String,
    function: &'a str,
    name: String,
}

impl At<'_> {
    fn inner(&self, field: &str) -> Self {
        let text = format!("{}.{field}", self.text);
        Self { text, function: self.function, name: format!("{}{}", self.name, capitalized(field)) }
    }

    /// The elements of a list or map.
    fn element(&self) -> Self {
        let (text, name) = (format!("{}[]", self.text), format!("{}Item", self.name));
        Self { text, function: self.function, name }
    }

    /// One of several types.
    fn alternative(&self, number: usize) -> Self {
        let name = format!("{}{number}", self.name);
        Self { text: self.text.clone(), function: self.function, name }
    }

    fn fail(&self, what: impl Into<String>) -> Unwritable {
        Unwritable { at: format!("{} of {}", self.text, self.function), what: what.into() }
    }
}

impl TypeEntries {
    fn function(&mut self, name: &str, function: &DeclaredFunction) -> Result<Value, Unwritable> {
        let at = |what: &str, of: &str| At {
            text: format!("{what} {of}").trim_end().to_owned(),
            function: name,
            name: format!("{}{}", capitalized(name), capitalized(of)),
        };
        if let Err(what) = names::function(name) {
            return Err(Unwritable { at: format!("function {name}"), what });
        }
        let mut declared = Map::new();
        let mut params = Map::new();
        for field in fields(&function.params, &at("parameters", ""))? {
            let place = at("parameter", &field.name);
            names::variable(&field.name).map_err(|what| place.fail(what))?;
            params.insert(field.name.clone(), self.parameter(&place, field)?);
        }
        if !params.is_empty() {
            declared.insert("params".to_owned(), params.into());
        }
        match function.result.bare() {
            ValueType::Null => {}
            ValueType::Map { fields, .. } if !fields.is_empty() => {
                let mut variables = Map::new();
                for field in fields {
                    let place = at("result", &field.name);
                    names::variable(&field.name).map_err(|what| place.fail(what))?;
                    if !field.required {
                        return Err(place.fail("a result has all of its variables, always"));
                    }
                    let kind = self.write(&place, &field.values, false)?;
                    let variable = match &field.desc {
                        Some(desc) => json!({ "type": kind, "desc": desc }),
                        None => kind,
                    };
                    variables.insert(field.name.clone(), variable);
                }
                declared.insert("result".to_owned(), variables.into());
            }
            whole => {
                let kind = self.write(&at("result", "result"), whole, false)?;
                declared.insert("result".to_owned(), kind);
            }
        }
        if let Some(event) = &function.event {
            let place = At { text: "events".to_owned(), function: name, name: event_type(name) };
            let kind = self.write(&place, event, false)?;
            // a type of FTN3 gets a name, too
            if kind != place.name.as_str() {
                self.declare(&place, kind)?;
            }
        }
        let throws = function.throws.as_deref().unwrap_or_default();
        for code in throws {
            names::error(code).map_err(|what| at("error", code).fail(what))?;
        }
        if !throws.is_empty() {
            declared.insert("throws".to_owned(), json!(throws));
        }
        if let Some(level) = function.seclvl {
            declared.insert("seclvl".to_owned(), level.name().into());
        }
        if function.heavy {
            declared.insert("heavy".to_owned(), true.into());
        }
        for (word, is_said) in
            [("rawupload", function.rawupload), ("rawresult", function.rawresult)]
        {
            if is_said {
                declared.insert(word.to_owned(), true.into());
            }
        }
        Ok(declared.into())
    }

    /// A parameter. One that need not be sent has a default: its own, or null.
    fn parameter(&mut self, at: &At<'_>, field: &Field) -> Result<Value, Unwritable> {
        let mut default = field.default.clone().filter(|_| !field.required);
        if field.values.has_null() && !matches!(field.values.bare(), ValueType::Any) {
            default = default.or(Some(Value::Null));
        }
        let kind = self.write(at, &field.values.without_null(), true)?;
        if default.is_none() && !field.required {
            return Err(at.fail("it may be left out, but has no default that can be written"));
        }
        let desc = field.desc.as_deref().map(Value::from);
        let all = [("type", Some(kind)), ("default", default), ("desc", desc)];
        Ok(all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
    }

    /// A type as its name. A type of a parameter is `read`: it may have values that are never sent.
    fn write(&mut self, at: &At<'_>, values: &ValueType, read: bool) -> Result<Value, Unwritable> {
        if let ValueType::Named(name, inner) = values {
            let named =
                At { name: capitalized(name), text: at.text.clone(), function: at.function };
            return self.write(&named, inner, read);
        }
        let declared = match values.bare() {
            ValueType::Any => return Ok("any".into()),
            ValueType::Boolean => return Ok("boolean".into()),
            ValueType::Null => {
                return Err(at.fail("FTN3 has no null, and a result has all of its variables: use `Option<T>` in a parameter, or in a field of a struct inside of the result"));
            }
            ValueType::Recursive(name) => {
                let what = format!("{name} contains itself, and no type of FTN3 does: use a map");
                return Err(at.fail(what));
            }
            ValueType::AnyOf(types) => {
                let mut names = Vec::new();
                for (number, one) in (1..).zip(types) {
                    names.push(self.write(&at.alternative(number), one, read)?);
                }
                return self.declare(at, names.into());
            }
            ValueType::Integer(range) => match integer(*range, read) {
                Some(range) if range == Range::INTEGER => return Ok("integer".into()),
                Some(range) => limited("integer", range, Range::INTEGER),
                None => {
                    let what = "integers of FTN3 have 32 bits: use i32, or f64 for larger ones";
                    return Err(at.fail(what));
                }
            },
            ValueType::Number(range) => limited("number", *range, Range::ALL),
            ValueType::Text { length, pattern } => {
                let mut declared = sized("string", *length);
                if let Some(pattern) = pattern {
                    declared.insert("regex".to_owned(), pattern.as_str().into());
                }
                declared
            }
            ValueType::Data(length) => sized("data", *length),
            ValueType::List { length, element } => {
                let mut declared = sized("array", *length);
                if !matches!(element.bare(), ValueType::Any) {
                    let element = self.write(&at.element(), element, read)?;
                    declared.insert("elemtype".to_owned(), element);
                }
                declared
            }
            ValueType::Map { fields, others } => self.map(at, fields, others.as_deref(), read)?,
            ValueType::Enum(items) => based("enum", [("items", json!(items))]),
            ValueType::Set(items) => based("set", [("items", json!(items))]),
            ValueType::Named(..) => unreachable!("it is bare"),
        };
        if declared.len() == 1 {
            return Ok(declared["type"].clone());
        }
        self.declare(at, declared.into())
    }

    fn map(
        &mut self,
        at: &At<'_>,
        fields: &[Field],
        others: Option<&ValueType>,
        read: bool,
    ) -> Result<Map<String, Value>, Unwritable> {
        let mut declared = based("map", []);
        let mut written = Map::new();
        for field in fields {
            let place = at.inner(&field.name);
            names::variable(&field.name).map_err(|what| place.fail(what))?;
            let is_optional = !field.required || field.values.has_null();
            let kind = self.write(&place, &field.values.without_null(), read)?;
            if read && !field.required && !field.values.has_null() {
                let what = "an optional field is null if it is not sent: use `Option<T>`";
                return Err(place.fail(what));
            }
            written.insert(field.name.clone(), json!({ "type": kind, "optional": is_optional }));
        }
        if !written.is_empty() {
            declared.insert("fields".to_owned(), written.into());
        } else if let Some(others) = others.filter(|others| !matches!(others, ValueType::Any)) {
            let others = self.write(&at.element(), others, read)?;
            declared.insert("elemtype".to_owned(), others);
        }
        Ok(declared)
    }

    fn declare(&mut self, at: &At<'_>, kind: Value) -> Result<Value, Unwritable> {
        let name = &at.name;
        match self.0.get(name) {
            Some(other) if *other != kind => {
                Err(at.fail(format!("two types would have the name {name}")))
            }
            _ => {
                self.0.insert(name.clone(), kind);
                Ok(name.as_str().into())
            }
        }
    }
}

/// The fields of the type of parameters.
fn fields<'a>(params: &'a ValueType, at: &At<'_>) -> Result<&'a [Field], Unwritable> {
    match params.bare() {
        ValueType::Null => Ok(&[]),
        ValueType::Map { fields, .. } => Ok(fields),
        other => Err(at.fail(format!("{other} has no fields: use a struct"))),
    }
}

/// The part of a range that fits into 32 bits; `None` if a value that is written could be beyond
/// it.
fn integer(range: Range, read: bool) -> Option<Range> {
    let Range { min, max } = Range::INTEGER;
    let cut = Range { min: range.min.max(min), max: range.max.min(max) };
    (read || cut == range).then_some(cut)
}

fn limited(base: &str, range: Range, of_base: Range) -> Map<String, Value> {
    let mut declared = based(base, []);
    for (name, limit, of_base) in [("min", range.min, of_base.min), ("max", range.max, of_base.max)]
    {
        if limit != of_base {
            declared.insert(name.to_owned(), number(limit));
        }
    }
    declared
}

fn sized(base: &str, length: Length) -> Map<String, Value> {
    let mut declared = based(base, []);
    if length.min > 0 {
        declared.insert("minlen".to_owned(), length.min.into());
    }
    if length.max < usize::MAX {
        declared.insert("maxlen".to_owned(), length.max.into());
    }
    declared
}

fn based<const N: usize>(base: &str, limits: [(&str, Value); N]) -> Map<String, Value> {
    let base = [("type".to_owned(), base.into())];
    base.into_iter().chain(limits.map(|(name, limit)| (name.to_owned(), limit))).collect()
}

/// A limit without a fraction where there is none.
fn number(limit: f64) -> Value {
    let text = limit.to_string();
    text.parse::<i64>().map_or_else(|_| limit.into(), Value::from)
}

/// A name as FTN3 requires for types.
fn capitalized(name: &str) -> String {
    let words = name.split(|letter: char| !letter.is_ascii_alphanumeric());
    let mut joined = String::new();
    for word in words {
        let mut letters = word.chars();
        joined.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        joined.push_str(letters.as_str());
    }
    joined
}
