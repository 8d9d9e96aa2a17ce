//! Whether all values of one type are values of another.

use serde_json::Value;

use super::Mismatch;
use super::declared::{Missing, Types};
use super::value_type::{Field, Length, Range, ValueType};
use crate::iface::{Definition, Function, event_type};

/// Which side of a comparison is the Rust type.
#[derive(Clone, Copy)]
enum Rust {
    /// It reads what the definition admits.
    Reads,
    /// It writes what the definition has to admit.
    Writes,
}

/// The differences between the parameters of `function` and the Rust type that reads them.
pub(super) fn parameters(
    definition: &Definition,
    function: &Function,
    reads: &ValueType,
    found: &mut Vec<Mismatch>,
) {
    let mut compare = Comparison { rust: Rust::Reads, found };
    let types = Types { definition, missing: Missing::IsNull };
    let (fields, is_open) = match reads.bare() {
        ValueType::Null => (&[][..], true),
        // it reads them by itself
        ValueType::Any => return,
        ValueType::Map { fields, others } => (&fields[..], others.is_some()),
        other => return compare.report("parameters", format!("the Rust type has {other}, no map")),
    };
    for param in function.params() {
        let at = format!("parameter {}", param.name());
        let Some(field) = fields.iter().find(|field| field.name == param.name()) else {
            // a map with any names has it all the same
            if fields.is_empty() && is_open && !matches!(reads.bare(), ValueType::Null) {
                continue;
            }
            compare.report(&at, "the Rust type has no such field".to_owned());
            continue;
        };
        let mut values = types.values(param.type_name());
        if param.default() == Some(&Value::Null) {
            values = ValueType::AnyOf(vec![values, ValueType::Null]);
        }
        compare.values(&at, &values, &field.values);
    }
    for field in fields {
        if function.param(&field.name).is_none() {
            let at = format!("parameter {}", field.name);
            compare.report(&at, "the definition does not declare it".to_owned());
        }
    }
}

/// The differences between the result of `function` and the Rust type that is written for it.
pub(super) fn result(
    definition: &Definition,
    function: &Function,
    writes: &ValueType,
    found: &mut Vec<Mismatch>,
) {
    let mut compare = Comparison { rust: Rust::Writes, found };
    let types = Types { definition, missing: Missing::Stays };
    let is_nothing = matches!(writes.bare(), ValueType::Null);
    if function.rawresult() {
        if !is_nothing {
            let what = format!("the Rust type has {writes}, the definition has a raw result");
            compare.report("result", what);
        }
        return;
    }
    match function.result_type() {
        None if is_nothing => {}
        None => {
            compare
                .report("result", format!("the Rust type has {writes}, the definition has none"));
        }
        Some(Value::Object(variables)) => {
            let fields = variables.iter().map(|(name, kind)| {
                let kind = kind.get("type").unwrap_or(kind);
                let values = types.values(kind);
                Field { name: name.clone(), values, required: true, default: None, desc: None }
            });
            let declared = ValueType::Map { fields: fields.collect(), others: None };
            compare.values("result", writes, &declared);
        }
        Some(whole) => compare.values("result", writes, &types.values(whole)),
    }
}

/// The differences between what `function` emits and the Rust type that is written for it.
pub(super) fn event(definition: &Definition, function: &str, writes: &ValueType) -> Vec<Mismatch> {
    let mut found = Vec::new();
    let mut compare = Comparison { rust: Rust::Writes, found: &mut found };
    match definition.event_type(function) {
        Some(name) => {
            let types = Types { definition, missing: Missing::Stays };
            compare.values("event", writes, &types.values(&name.into()));
        }
        None => compare.report("event", format!("the definition has no {}", event_type(function))),
    }
    found
}

/// A comparison of two types, and its findings.
struct Comparison<'a> {
    rust: Rust,
    found: &'a mut Vec<Mismatch>,
}

impl Comparison<'_> {
    fn report(&mut self, at: &str, what: String) {
        self.found.push(Mismatch { at: at.to_owned(), what });
    }

    /// The types of the two sides, the Rust type first.
    fn sides(&self, given: &dyn std::fmt::Display, taken: &dyn std::fmt::Display) -> String {
        match self.rust {
            Rust::Reads => format!("the Rust type has {taken}, the definition has {given}"),
            Rust::Writes => format!("the Rust type has {given}, the definition has {taken}"),
        }
    }

    /// The side that has the part which the other one lacks.
    fn lacks(&self, taken: bool) -> &'static str {
        match (self.rust, taken) {
            (Rust::Reads, true) | (Rust::Writes, false) => "the Rust type",
            (Rust::Reads, false) | (Rust::Writes, true) => "the definition",
        }
    }

    /// Reports where values of `given` are none of `taken`.
    fn values(&mut self, at: &str, given: &ValueType, taken: &ValueType) {
        match (given.bare(), taken.bare()) {
            (ValueType::AnyOf(types), _) => {
                // one report for the whole, unless the inside of one alternative says more
                if types.iter().all(|one| fits(one, taken)) {
                    return;
                }
                let (without, of_taken) = (given.without_null(), taken.without_null());
                let is_one = !matches!(without, ValueType::AnyOf(_));
                if is_one && (taken.has_null() || !given.has_null()) {
                    self.values(at, &without, &of_taken);
                } else {
                    self.report(at, self.sides(given, taken));
                }
            }
            (ValueType::Map { fields: given, .. }, ValueType::Map { fields: taken, others })
                if !taken.is_empty() =>
            {
                self.fields(at, given, taken, others.as_deref());
            }
            (
                ValueType::List { length, element },
                ValueType::List { length: taken_length, element: taken_element },
            ) if taken_length.holds(*length) => {
                self.values(&format!("{at}[]"), element, taken_element);
            }
            (_, ValueType::AnyOf(_)) if !fits(given, taken) => {
                let one = taken.without_null();
                match matches!(one, ValueType::AnyOf(_)) {
                    true => self.report(at, self.sides(given, taken)),
                    false => self.values(at, given, &one),
                }
            }
            _ if fits(given, taken) => {}
            _ => self.report(at, self.sides(given, taken)),
        }
    }

    fn fields(&mut self, at: &str, given: &[Field], taken: &[Field], others: Option<&ValueType>) {
        let inner = |name: &str| match at {
            "result" => format!("result {name}"),
            at => format!("{at}.{name}"),
        };
        for field in taken {
            let at = inner(&field.name);
            match given.iter().find(|other| other.name == field.name) {
                Some(own) => {
                    self.values(&at, &own.values, &field.values);
                    if field.required && !own.required && field.default.is_none() {
                        let what = format!("{} may leave it out", self.lacks(false));
                        self.report(&at, what);
                    }
                }
                None if field.required => {
                    let what = format!("{} has no such field", self.lacks(false));
                    self.report(&at, what);
                }
                None => {}
            }
        }
        for field in given.iter().filter(|own| !taken.iter().any(|other| other.name == own.name)) {
            let at = inner(&field.name);
            match others {
                Some(others) => self.values(&at, &field.values, others),
                None => {
                    let what = format!("{} has no such field", self.lacks(true));
                    self.report(&at, what);
                }
            }
        }
    }
}

/// Whether all values of `given` are values of `taken`.
fn fits(given: &ValueType, taken: &ValueType) -> bool {
    use ValueType as T;
    match (given.bare(), taken.bare()) {
        (_, T::Any) => true,
        (T::AnyOf(types), taken) => types.iter().all(|one| fits(one, taken)),
        (given, T::AnyOf(types)) => types.iter().any(|one| fits(given, one)),
        (T::Null, T::Null) | (T::Boolean, T::Boolean) => true,
        (T::Integer(given), T::Integer(taken) | T::Number(taken))
        | (T::Number(given), T::Number(taken)) => taken.holds(*given),
        (T::Text { length, pattern }, T::Text { length: other, pattern: wanted }) => {
            other.holds(*length) && (wanted.is_none() || wanted == pattern)
        }
        (T::Data(given), T::Data(taken)) => taken.holds(*given),
        (T::Data(_), taken) => *taken == T::TEXT,
        (T::Enum(items), taken) => items.iter().all(|item| has(taken, item)),
        (T::Set(items), T::Set(taken)) => items.iter().all(|item| taken.contains(item)),
        (T::Set(items), T::List { length, element }) => {
            let longest = Length { min: 0, max: items.len() };
            length.holds(longest) && items.iter().all(|item| has(element, item))
        }
        (T::List { length, element }, T::List { length: other, element: taken }) => {
            other.holds(*length) && fits(element, taken)
        }
        (T::Map { fields, others }, T::Map { fields: taken, others: rest }) => {
            fits_map(fields, others.as_deref(), taken, rest.as_deref())
        }
        _ => false,
    }
}

fn fits_map(
    given: &[Field],
    others: Option<&ValueType>,
    taken: &[Field],
    rest: Option<&ValueType>,
) -> bool {
    let taken_fit = taken.iter().all(|field| {
        let own = given.iter().find(|own| own.name == field.name);
        own.map_or(!field.required, |own| {
            fits(&own.values, &field.values)
                && (own.required || !field.required || field.default.is_some())
        })
    });
    let unknown = |own: &&Field| !taken.iter().any(|field| field.name == own.name);
    let given_fit =
        given.iter().filter(unknown).all(|own| rest.is_some_and(|rest| fits(&own.values, rest)));
    // maps of definitions may always have further fields, which says nothing
    let others_fit = match (others, rest) {
        (Some(others), Some(rest)) if given.is_empty() => fits(others, rest),
        _ => true,
    };
    taken_fit && given_fit && others_fit
}

/// Whether a text or number is a value of `taken`.
fn has(taken: &ValueType, item: &Value) -> bool {
    match taken.bare() {
        ValueType::Any => true,
        ValueType::Enum(items) => items.contains(item),
        ValueType::AnyOf(types) => types.iter().any(|one| has(one, item)),
        ValueType::Text { length, pattern: None } => item.as_str().is_some_and(|text| {
            let units = text.encode_utf16().count();
            length.holds(Length { min: units, max: units })
        }),
        ValueType::Integer(range) | ValueType::Number(range) => {
            item.as_f64().is_some_and(|number| range.holds(Range { min: number, max: number }))
        }
        _ => false,
    }
}
