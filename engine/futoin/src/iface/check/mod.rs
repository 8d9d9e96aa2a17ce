//! Checkers: compiled types, so that checking a value looks nothing up.

mod base64;
mod canonical;
mod limits;
mod pattern;
mod refused_at;

use std::sync::Arc;

use serde_json::{Map, Number, Value};

use self::base64::decoded_len;
pub(super) use self::limits::{LengthRange, MAX_MEMBERS, Members, NumberRange};
pub(super) use self::pattern::Pattern;

/// One type with all its constraints (FTN3 §1.8). It is built once per definition and shared by
/// every reference to it; it never contains itself.
#[derive(Debug)]
pub(crate) enum Check {
    Any,
    Boolean,
    /// 32-bit signed; a number without a fraction, however it is written.
    Integer(NumberRange),
    Number(NumberRange),
    String {
        length: LengthRange,
        pattern: Option<Pattern>,
    },
    /// Bytes, which a JSON value carries as padded base64 (RFC 4648 §4).
    Data(LengthRange),
    Array {
        length: LengthRange,
        element: Option<Arc<Self>>,
    },
    Map {
        fields: Box<[CheckedField]>,
        element: Option<Arc<Self>>,
    },
    Enum(Members),
    Set(Members),
    AnyOf(Box<[Arc<Self>]>),
}

impl Check {
    /// Whether `value` is of this type; then also brings it into its normal form: `null` for each
    /// absent optional field (FTN3 §1.8.1), and numbers without a fraction, such as `1.0` or `1e2`, become integers.
    ///
    /// A value that is refused stays as it is. One in normal form already is read once, and
    /// nothing is allocated for it unless a `regex` meets characters beyond U+FFFF.
    pub(crate) fn admit(&self, value: &mut Value) -> bool {
        let mut reading = CheckPass { must_normalize: false };
        let accepted = reading.accepts(self, value);
        if accepted && reading.must_normalize {
            self.normalize(value);
        }
        accepted
    }

    /// Whether `value` is of this type.
    pub(crate) fn accepts(&self, value: &Value) -> bool {
        CheckPass { must_normalize: false }.accepts(self, value)
    }

    /// Brings an accepted value into its normal form.
    fn normalize(&self, value: &mut Value) {
        match self {
            Self::Integer(_) | Self::Enum(_) => normalize_integer(value),
            Self::Number(_) => normalize_number(value),
            Self::Set(_) => value.as_array_mut().into_iter().flatten().for_each(normalize_integer),
            Self::Array { element: Some(element), .. } => {
                value.as_array_mut().into_iter().flatten().for_each(|item| element.normalize(item));
            }
            Self::Map { fields, element } => {
                let Some(map) = value.as_object_mut() else {
                    return;
                };
                for field in fields {
                    field.normalize(map);
                }
                if let Some(element) = element {
                    map.values_mut().for_each(|item| element.normalize(item));
                }
            }
            Self::AnyOf(kinds) => {
                if let Some(kind) = kinds.iter().find(|kind| kind.accepts(value)) {
                    kind.normalize(value);
                }
            }
            Self::Any
            | Self::Boolean
            | Self::String { .. }
            | Self::Data(_)
            | Self::Array { element: None, .. } => {}
        }
    }
}

/// One pass over a value.
struct CheckPass {
    /// A part of the value is accepted, but not in its normal form.
    must_normalize: bool,
}

impl CheckPass {
    fn accepts(&mut self, check: &Check, value: &Value) -> bool {
        match check {
            Check::Any => true,
            Check::Boolean => value.is_boolean(),
            Check::Integer(range) => {
                self.integer(value).is_some_and(|number| range.holds(f64::from(number)))
            }
            Check::Number(range) => {
                value.as_number().is_some_and(|number| self.number(*range, number))
            }
            Check::String { length, pattern } => value.as_str().is_some_and(|text| {
                length.holds_units(text)
                    && pattern.as_ref().is_none_or(|pattern| pattern.is_match(text))
            }),
            Check::Data(length) => {
                value.as_str().and_then(decoded_len).is_some_and(|len| length.holds(len))
            }
            Check::Array { length, element } => value.as_array().is_some_and(|items| {
                length.holds(items.len())
                    && element
                        .as_ref()
                        .is_none_or(|element| items.iter().all(|item| self.accepts(element, item)))
            }),
            Check::Map { fields, element } => value.as_object().is_some_and(|map| {
                fields.iter().all(|field| self.field(field, map))
                    && element
                        .as_ref()
                        .is_none_or(|element| map.values().all(|item| self.accepts(element, item)))
            }),
            Check::Enum(members) => self.position(members, value).is_some(),
            Check::Set(members) => value.as_array().is_some_and(|list| self.set(members, list)),
            Check::AnyOf(kinds) => kinds.iter().any(|kind| self.accepts(kind, value)),
        }
    }

    fn field(&mut self, field: &CheckedField, map: &Map<String, Value>) -> bool {
        match map.get(&*field.name) {
            Some(Value::Null) if field.optional => true,
            Some(value) => self.accepts(&field.check, value),
            None => {
                self.must_normalize = true;
                field.optional
            }
        }
    }

    /// No duplicates: a set has each member once (FTN3 §1.8).
    fn set(&mut self, members: &Members, list: &[Value]) -> bool {
        let mut seen = [0_u64; MAX_MEMBERS.div_ceil(64)];
        list.iter().all(|value| {
            let Some(position) = self.position(members, value) else {
                return false;
            };
            let Some(word) = seen.get_mut(position / 64) else {
                return false;
            };
            let bit = 1 << (position % 64);
            let is_new = *word & bit == 0;
            *word |= bit;
            is_new
        })
    }

    fn position(&mut self, members: &Members, value: &Value) -> Option<usize> {
        if let Some(text) = value.as_str() {
            let position = members.texts.binary_search_by(|item| (**item).cmp(text)).ok()?;
            return Some(members.numbers.len() + position);
        }
        let number = self.integer(value)?;
        members.numbers.binary_search(&number).ok()
    }

    /// A `number` is an `f64` to most peers, so integers that `f64` does not hold are none.
    fn number(&mut self, range: NumberRange, number: &Number) -> bool {
        let whole = number.as_i64().map(i64::unsigned_abs).or_else(|| number.as_u64());
        let is_held =
            |n: u64| n.leading_zeros() + n.trailing_zeros() + f64::MANTISSA_DIGITS >= u64::BITS;
        let Some(float) = number.as_f64() else { return false };
        self.must_normalize |= whole.is_none() && float.fract() == 0.0;
        whole.is_none_or(is_held) && range.holds(float)
    }

    fn integer(&mut self, value: &Value) -> Option<i32> {
        let number = value.as_number()?;
        if let Some(whole) = number.as_i64() {
            return i32::try_from(whole).ok();
        }
        self.must_normalize = true;
        number.as_f64().and_then(whole)
    }
}

/// `number` as an integer if it has no fraction and 32 bits hold it.
pub(super) fn whole(number: f64) -> Option<i32> {
    if number.fract() != 0.0 || !(f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number) {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "whole and in range, by the line above")]
    Some(number as i32)
}

/// Makes a float without a fraction an integer.
fn normalize_integer(value: &mut Value) {
    match value.as_f64() {
        Some(0.0) => *value = 0.into(),
        _ => normalize_number(value),
    }
}

/// The same, but for a zero with a sign.
fn normalize_number(value: &mut Value) {
    let float = value.as_number().filter(|number| number.is_f64()).and_then(Number::as_f64);
    let whole = float.filter(|float| float.fract() == 0.0).map(|float| format!("{float:.0}"));
    if let Some(number) = whole.and_then(|whole| whole.parse().ok()) {
        *value = Value::Number(number);
    }
}

/// A field of a map type.
#[derive(Debug)]
pub(crate) struct CheckedField {
    pub(crate) name: Box<str>,
    pub(crate) check: Arc<Check>,
    pub(crate) optional: bool,
}

impl CheckedField {
    fn normalize(&self, map: &mut Map<String, Value>) {
        match map.get_mut(&*self.name) {
            Some(Value::Null) if self.optional => {}
            Some(value) => self.check.normalize(value),
            None => drop(map.insert(self.name.as_ref().to_owned(), Value::Null)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::iface::fixture::{call, iface, load};

    /// Passes each value through a parameter of the type, which can refer to `others`.
    fn check(decl: Value, others: Value, accepted: &[Value], refused: &[Value]) {
        let mut types = others;
        types["T"] = decl.clone();
        let funcs = json!({"f": {"params": {"v": {"type": "T"}}}});
        let definition = load(&[iface(json!({"types": types, "funcs": funcs}))]).unwrap();
        let param = definition.function("f").unwrap().param("v").unwrap();
        for value in accepted {
            assert!(param.accepts(value), "{decl} should take {value}");
        }
        for value in refused {
            let mut tried = value.clone();
            assert!(!param.check.admit(&mut tried), "{decl} should refuse {value}");
            assert_eq!(&tried, value, "a refused value stays as it is");
        }
    }

    fn text(json: &str) -> Value {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn plain_types() {
        let kinds = [
            ("boolean", json!(true)),
            ("integer", json!(1)),
            ("number", json!(1.5)),
            ("string", json!("s")),
            ("map", json!({})),
            ("array", json!([])),
            ("data", json!("AAA=")),
        ];
        for (kind, value) in &kinds {
            let others = kinds.iter().filter(|(other, _)| match (*kind, *other) {
                ("number", "integer") | ("string", "data") => false,
                _ => other != kind,
            });
            let mut refused: Vec<Value> = others.map(|(_, value)| value.clone()).collect();
            refused.push(json!(null));
            check(json!(kind), json!({}), std::slice::from_ref(value), &refused);
        }
        let anything = kinds.map(|(_, value)| value);
        check(json!("any"), json!({}), &anything, &[]);
        check(json!("any"), json!({}), &[json!(null)], &[]);
    }

    #[test]
    fn integers_are_whole_and_32_bits() {
        check(
            json!("integer"),
            json!({}),
            &["1.0", "1e2", "-0", "-0.0", "2147483647", "-2147483648", "2147483647.0"].map(text),
            &[
                "2147483648",
                "-2147483649",
                "1.5",
                "1e10",
                "1e300",
                "-1e300",
                "18446744073709551615",
            ]
            .map(text),
        );
    }

    #[test]
    fn numbers_have_inclusive_limits() {
        let ratio = json!({"type": "number", "min": 0, "max": 1.5});
        let (good, bad) = (["0", "1.5", "1", "-0.0"].map(text), ["-0.1", "1.6", "2e300"].map(text));
        check(ratio, json!({}), &good, &bad);
        let small = json!({"type": "integer", "min": -10, "max": 10});
        check(small, json!({}), &["-10", "10", "1e1"].map(text), &["-11", "11", "0.5"].map(text));
    }

    #[test]
    fn a_number_is_one_that_f64_has() {
        let all =
            ["9007199254740992", "-9223372036854775808", "9223372036854775808", "1e308", "-0"];
        let beyond = ["9007199254740993", "9223372036854775807", "18446744073709551615"];
        check(json!("number"), json!({}), &all.map(text), &beyond.map(text));
        check(json!("any"), json!({}), &beyond.map(text), &[]);
    }

    #[test]
    fn string_length_counts_utf16_units() {
        let three = json!({"type": "string", "minlen": 2, "maxlen": 3});
        let good = ["ab", "abc", "é€", "😀", "😀a", "éé€"].map(|text| json!(text));
        let bad = ["", "a", "abcd", "€", "😀😀"].map(|text| json!(text));
        check(three, json!({}), &good, &bad);
    }

    #[test]
    fn a_regex_is_ecmascript_and_not_anchored() {
        let code = json!({"type": "string", "regex": "[0-9]{3}"});
        check(code, json!({}), &[json!("a123b")], &[json!("12"), json!("")]);
        let word = json!({"type": "string", "regex": "^\\d\\w+$"});
        check(word, json!({}), &[json!("1a")], &[json!("aa"), json!("٣a"), json!("1a\n")]);
    }

    #[test]
    fn data_is_base64_measured_in_bytes() {
        let blob = json!({"type": "data", "minlen": 1, "maxlen": 3});
        let good = ["AA==", "AQ==", "AAA=", "AAE=", "AAAA", "+/+/"].map(|text| json!(text));
        let bad = [
            "", "AR==", "AAF=", "A", "AA", "AAA", "A===", "====", "AAAAAA==", "A AA", "AA=A",
            "é===",
        ]
        .map(|text| json!(text));
        check(blob, json!({}), &good, &bad);
    }

    #[test]
    fn lists_and_maps_check_what_they_hold() {
        let list = json!({"type": "array", "elemtype": "integer", "minlen": 1, "maxlen": 2});
        check(
            list,
            json!({}),
            &[json!([1]), json!([1, 2])],
            &[json!([]), json!([1, 2, 3]), json!(["a"]), json!([null]), json!({"0": 1})],
        );
        check(
            json!({"type": "map", "elemtype": ["integer", "string"]}),
            json!({}),
            &[json!({}), json!({"a": 1, "b": "x"})],
            &[json!({"a": 1.5}), json!({"a": null}), json!([])],
        );
        check(
            json!({"type": "map", "fields": {"x": "integer", "o": {"type": "string", "optional": true}}}),
            json!({}),
            &[json!({"x": 1}), json!({"x": 1, "o": null, "more": [1]})],
            &[json!({}), json!({"x": null}), json!({"x": 1, "o": 5})],
        );
    }

    #[test]
    fn enum_and_set_compare_value_and_type() {
        let items = json!(["red", 7, "1"]);
        check(
            json!({"type": "enum", "items": items}),
            json!({}),
            &[json!("red"), json!(7), json!(7.0), json!("1")],
            &[json!("7"), json!(1), json!("Red"), json!(null), json!(["red"]), json!(7.5)],
        );
        check(
            json!({"type": "set", "items": items}),
            json!({}),
            &[json!([]), json!(["red", 7]), json!([7, "1", "red"])],
            &[json!(["red", "red"]), json!([7, 7.0]), json!([1]), json!("red"), json!({"red": 1})],
        );
        let many: Vec<i32> = (0..1000).collect();
        check(
            json!({"type": "set", "items": many}),
            json!({}),
            &[json!(many)],
            &[json!([999, 999]), json!([1000]), json!([-1])],
        );
    }

    #[test]
    fn custom_types_refine_their_base() {
        let others = json!({
            "Id": {"type": "integer", "min": 1},
            "UserId": {"type": "Id", "max": 1000},
            "Alias": "UserId",
            "Word": {"type": "string", "regex": "^[a-z]+$"},
        });
        let small = json!({"type": "Alias", "max": 5});
        check(small, others.clone(), &[json!(1), json!(5)], &[json!(0), json!(6), json!("a")]);
        let either = json!(["Alias", "Word"]);
        check(either, others, &[json!(1000), json!("ab")], &[json!(1001), json!("A"), json!(null)]);
    }

    #[test]
    fn an_admitted_value_is_in_normal_form() {
        let types = json!({
            "P": {"type": "map", "fields": {
                "n": "integer",
                "o": {"type": "integer", "optional": true},
                "deep": {"type": "Ps", "optional": true},
            }},
            "Ps": {"type": "array", "elemtype": "Leaf"},
            "Leaf": {"type": "map", "fields": {"o": {"type": "any", "optional": true}}},
            "E": {"type": "enum", "items": [7]},
            "S": {"type": "set", "items": [1, "a"]},
            "A": {"type": "map", "fields": {"a": "string", "oa": {"type": "any", "optional": true}}},
            "B": {"type": "map", "fields": {"b": "string", "ob": {"type": "any", "optional": true}}},
        });
        let params = json!({
            "p": "P", "e": "E", "s": "S", "v": ["A", "B"], "x": "any", "r": "number",
        });
        let funcs = json!({"f": {"params": params}});
        let definition = load(&[iface(json!({"types": types, "funcs": funcs}))]).unwrap();
        let sent = json!({
            "p": {"n": 1e2, "deep": [{"o": 1.0}, {}], "more": 2.0},
            "e": 7.0, "s": ["a", 1.0], "v": {"b": ""}, "x": 1.0, "r": 1.0,
        });
        expect_test::expect![[r#"{"e":7,"p":{"deep":[{"o":1.0},{"o":null}],"more":2.0,"n":100,"o":null},"r":1,"s":["a",1],"v":{"b":"","ob":null},"x":1.0}"#]]
            .assert_eq(&call(&definition, "a.b:1.0:f", sent));
    }
}
