//! The bytes a message authentication code runs over (FTN8 §2.11.1).

use serde_json::{Number, Value};

use super::binary::{BinaryValue, data};
use crate::iface::{DeclaredType, Function};

/// The fields of a message that its signature covers.
#[derive(Debug, Clone, Default)]
pub struct SignedFields<'a> {
    fields: Vec<(&'a str, SignedPart<'a>)>,
}

#[derive(Debug, Clone, Copy)]
enum SignedPart<'a> {
    Flag(bool),
    Text(&'a str),
    /// With its declared type in a binary coding.
    Value(&'a Value, Option<DeclaredType<'a>>),
    /// The result of this function, written in a binary coding.
    Result(&'a Value, &'a Function),
    Binary(&'a BinaryValue),
}

impl<'a> SignedFields<'a> {
    pub(super) fn value(&mut self, name: &'a str, value: &'a Value) {
        self.push(name, SignedPart::Value(value, None));
    }

    pub(super) fn text(&mut self, name: &'a str, text: &'a str) {
        self.push(name, SignedPart::Text(text));
    }

    pub(super) fn flag(&mut self, name: &'a str, flag: bool) {
        self.push(name, SignedPart::Flag(flag));
    }

    pub(super) fn binary(&mut self, name: &'a str, value: &'a BinaryValue) {
        self.push(name, SignedPart::Binary(value));
    }

    /// `function` in a binary coding, which writes byte strings as bytes.
    pub(super) fn result(
        &mut self,
        name: &'a str,
        result: &'a Value,
        function: Option<&'a Function>,
    ) {
        let part = match function {
            Some(function) => match function.declared_result() {
                Some(kind) => SignedPart::Value(result, Some(kind)),
                None => SignedPart::Result(result, function),
            },
            None => SignedPart::Value(result, None),
        };
        self.push(name, part);
    }

    /// Of equal names the last one counts.
    fn push(&mut self, name: &'a str, part: SignedPart<'a>) {
        self.fields.retain(|(other, _)| *other != name);
        self.fields.push((name, part));
    }

    /// The bytes to sign: `name:value;` for each field, sorted by name, and the same for the fields of
    /// maps and the items of lists, which are named by their indices. Null is left out. Strings and
    /// bytes are written as they are, other values as ECMAScript writes JSON.
    #[must_use]
    pub fn base(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        pairs(&mut out, self.fields.clone());
        out
    }
}

impl<'a> SignedPart<'a> {
    fn is_null(self) -> bool {
        matches!(self, SignedPart::Value(Value::Null, _) | SignedPart::Binary(BinaryValue::Null))
    }

    fn write(self, out: &mut Vec<u8>) {
        match self {
            SignedPart::Flag(flag) => out.extend_from_slice(if flag { b"true" } else { b"false" }),
            SignedPart::Text(text) => out.extend_from_slice(text.as_bytes()),
            SignedPart::Value(value, kind) => write_value(out, value, kind),
            SignedPart::Binary(value) => write_binary(out, value),
            SignedPart::Result(result, function) => match result.as_object() {
                Some(map) => {
                    let kind = |name: &str| function.declared_variable(name);
                    let part = |v, name| SignedPart::Value(v, kind(name));
                    pairs(
                        out,
                        map.iter().map(|(name, v)| (name.as_str(), part(v, name))).collect(),
                    );
                }
                None => write_value(out, result, None),
            },
        }
    }
}

fn write_value(out: &mut Vec<u8>, value: &Value, kind: Option<DeclaredType<'_>>) {
    let kind = kind.and_then(|kind| kind.chosen(value));
    match value {
        Value::Null => {}
        Value::Bool(flag) => SignedPart::Flag(*flag).write(out),
        Value::Number(number) => write_number(out, number),
        Value::String(text) => match data(text, kind) {
            Some(bytes) => out.extend_from_slice(&bytes),
            None => out.extend_from_slice(text.as_bytes()),
        },
        Value::Array(items) => {
            let kind = kind.and_then(DeclaredType::element);
            list(out, items.iter().map(|item| SignedPart::Value(item, kind)));
        }
        Value::Object(map) => {
            let field = |name: &str| kind.and_then(|kind| kind.field(name));
            let parts =
                map.iter().map(|(name, v)| (name.as_str(), SignedPart::Value(v, field(name))));
            pairs(out, parts.collect());
        }
    }
}

fn write_binary(out: &mut Vec<u8>, value: &BinaryValue) {
    match value {
        BinaryValue::Null => {}
        BinaryValue::Bool(flag) => SignedPart::Flag(*flag).write(out),
        BinaryValue::Number(number) => write_number(out, number),
        BinaryValue::Text(text) => out.extend_from_slice(text.as_bytes()),
        BinaryValue::Bytes(bytes) => out.extend_from_slice(bytes),
        BinaryValue::List(items) => list(out, items.iter().map(SignedPart::Binary)),
        BinaryValue::Map(map) => {
            pairs(
                out,
                map.iter().map(|(name, item)| (name.as_str(), SignedPart::Binary(item))).collect(),
            );
        }
    }
}

/// Names are compared by their UTF-16 units, as ECMAScript sorts them.
fn pairs(out: &mut Vec<u8>, mut parts: Vec<(&str, SignedPart<'_>)>) {
    parts.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
    for (name, part) in parts.into_iter().filter(|(_, part)| !part.is_null()) {
        out.extend_from_slice(name.as_bytes());
        out.push(b':');
        part.write(out);
        out.push(b';');
    }
}

/// A list is written as a map named by its indices, which are sorted as text: 10 is before 2.
fn list<'a>(out: &mut Vec<u8>, items: impl Iterator<Item = SignedPart<'a>>) {
    let named: Vec<_> = items.enumerate().map(|(index, part)| (index.to_string(), part)).collect();
    pairs(out, named.iter().map(|(name, part)| (name.as_str(), *part)).collect());
}

/// As ECMAScript's `JSON.stringify` writes it, which knows doubles only.
fn write_number(out: &mut Vec<u8>, number: &Number) {
    const EXACT: i64 = 1 << 53;
    match number.as_i64() {
        Some(whole) if (-EXACT..=EXACT).contains(&whole) => {
            out.extend_from_slice(whole.to_string().as_bytes());
        }
        _ => out.extend_from_slice(ecmascript(number.as_f64().unwrap_or_default()).as_bytes()),
    }
}

/// `Number::toString` of ECMAScript (§6.1.6.1.20). Rust finds the same digits, the shortest ones that
/// read back as the number, but puts the point elsewhere.
fn ecmascript(number: f64) -> String {
    if number == 0.0 {
        return "0".to_owned();
    }
    let sign = if number < 0.0 { "-" } else { "" };
    let text = format!("{:e}", number.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let digits = mantissa.replace('.', "");
    // how many digits are before the point
    let point = exponent.parse::<i32>().unwrap_or_default() + 1;
    let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap_or_default());
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let body = if (1..=21).contains(&point) {
        let whole = usize::try_from(point).unwrap_or_default();
        match digits.split_at_checked(whole) {
            Some((whole, "")) => whole.to_owned(),
            Some((whole, rest)) => format!("{whole}.{rest}"),
            None => digits + &zeros(point - count),
        }
    } else if (-5..=0).contains(&point) {
        format!("0.{}{digits}", zeros(-point))
    } else {
        let (first, rest) = digits.split_at_checked(1).unwrap_or((&digits, ""));
        let dot = if rest.is_empty() { "" } else { "." };
        format!("{first}{dot}{rest}e{:+}", point - 1)
    };
    format!("{sign}{body}")
}

#[cfg(test)]
mod tests {
    use super::super::{Request, Response};
    use super::*;

    #[test]
    fn numbers_are_written_as_ecmascript_does() {
        for (number, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (100.0, "100"),
            (0.1, "0.1"),
            (123.456, "123.456"),
            (0.000_001, "0.000001"),
            (0.000_000_1, "1e-7"),
            (1.5e-7, "1.5e-7"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1.25e22, "1.25e+22"),
            (f64::MAX, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
        ] {
            assert_eq!(ecmascript(number), text);
        }
    }

    fn base(json: &str) -> String {
        let request = Request::parse(json.as_bytes()).unwrap();
        String::from_utf8(request.signed_fields().base()).unwrap()
    }

    #[test]
    fn fields_are_sorted_at_every_depth() {
        let json = r#"{"sec":"x","rid":"C1","p":{"b":1.0,"a":{"z":true,"sec":"s","y":null},
            "l":[0,1,2,3,4,5,6,7,8,9,10],"e":{},"\ue000":1,"\ud83d\ude00":2},"f":"a.b:1.0:f",
            "obf":null,"forcersp":true,"zzz":2}"#;
        let p = "a:sec:s;z:true;;b:1;e:;l:0:0;1:1;10:10;2:2;3:3;4:4;5:5;6:6;7:7;8:8;9:9;;\
            \u{1f600}:2;\u{e000}:1;";
        assert_eq!(base(json), format!("f:a.b:1.0:f;forcersp:true;p:{p};rid:C1;zzz:2;"));
    }

    #[test]
    fn an_answer_is_signed_like_a_request() {
        let rid = Request::parse(br#"{"f":"a.b:1.0:f","rid":"C1"}"#).unwrap();
        let answer = Response::success(serde_json::json!({"sum": 3})).with_rid(rid.rid());
        let base = answer.signed_fields(Default::default(), None).base();
        assert_eq!(base, b"r:sum:3;;rid:C1;");
        let failure = Response::error("E", Some("why"));
        assert_eq!(failure.signed_fields(Default::default(), None).base(), b"e:E;edesc:why;");
    }
}
