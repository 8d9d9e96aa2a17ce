//! Checkers as JSON Schemas (2020-12): a value is of the type if it fits the schema.
//!
//! But lengths of strings count UTF-16 units here and characters there, so they differ beyond U+FFFF.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::check::{Check, CheckedField, LengthRange, Members, NumberRange, whole};

/// The `$ref` of a custom type; `None` for a type that is written where it is used.
pub(crate) type Refer<'a> = &'a dyn Fn(&Arc<Check>) -> Option<Value>;

impl Check {
    /// The schema of a type where it is used.
    pub(crate) fn schema_of(check: &Arc<Self>, refer: Refer<'_>) -> Value {
        refer(check).unwrap_or_else(|| check.json_schema(refer))
    }

    /// The schema itself.
    pub(crate) fn json_schema(&self, refer: Refer<'_>) -> Value {
        match self {
            Self::Any => json!({}),
            Self::Boolean => json!({ "type": "boolean" }),
            Self::Integer(NumberRange { min, max }) => {
                let (min, max) = (min.max(i32::MIN.into()), max.min(i32::MAX.into()));
                typed("integer", [("minimum", number(min)), ("maximum", number(max))])
            }
            Self::Number(NumberRange { min, max }) => {
                typed("number", [("minimum", number(*min)), ("maximum", number(*max))])
            }
            Self::String { length, pattern } => {
                let pattern = pattern.as_ref().map(|it| in_unicode_mode(it.source()).into());
                let all = length_of("minLength", "maxLength", *length);
                typed("string", all.into_iter().chain([("pattern", pattern)]))
            }
            Self::Data(length) => json!({
                "type": "string", "contentEncoding": "base64", "pattern": base64_of(*length),
            }),
            Self::Array { length, element } => {
                let items = element.as_ref().map(|element| Self::schema_of(element, refer));
                let all = length_of("minItems", "maxItems", *length);
                typed("array", all.into_iter().chain([("items", items)]))
            }
            Self::Map { fields, element } => {
                let element = element.as_ref().map(|element| Self::schema_of(element, refer));
                let properties: Map<_, _> = fields
                    .iter()
                    .map(|field| (field.name.to_string(), field.schema(refer)))
                    .collect();
                let required = fields.iter().filter(|field| !field.optional);
                let required: Vec<_> = required.map(|field| field.name.as_ref()).collect();
                typed(
                    "object",
                    [
                        ("properties", (!properties.is_empty()).then(|| properties.into())),
                        ("required", (!required.is_empty()).then(|| required.into())),
                        ("additionalProperties", element),
                    ],
                )
            }
            Self::Enum(members) => json!({ "enum": members.to_values() }),
            Self::Set(members) => {
                let items = json!({ "enum": members.to_values() });
                json!({ "type": "array", "items": items, "uniqueItems": true })
            }
            Self::AnyOf(kinds) => {
                let kinds = kinds.iter().map(|kind| Self::schema_of(kind, refer));
                json!({ "anyOf": kinds.collect::<Vec<_>>() })
            }
        }
    }

    /// Whether every text is of this type, so that a value in a URL is never anything else (FTN5).
    pub(crate) fn takes_every_text(&self) -> bool {
        match self {
            Self::Any => true,
            Self::String { length, pattern } => {
                length.min == 0 && length.max == usize::MAX && pattern.is_none()
            }
            Self::AnyOf(kinds) => kinds.iter().any(|kind| kind.takes_every_text()),
            Self::Boolean | Self::Integer(_) | Self::Number(_) | Self::Data(_) | Self::Enum(_) => {
                false
            }
            Self::Array { .. } | Self::Map { .. } | Self::Set(_) => false,
        }
    }

    /// Whether a value of this type is JSON in a URL, with brackets: a list or a map.
    pub(crate) fn is_structured(&self) -> bool {
        match self {
            Self::Array { .. } | Self::Map { .. } | Self::Set(_) => true,
            Self::AnyOf(kinds) => kinds.iter().any(|kind| kind.is_structured()),
            Self::Any | Self::Boolean | Self::Integer(_) | Self::Number(_) => false,
            Self::String { .. } | Self::Data(_) | Self::Enum(_) => false,
        }
    }
}

impl CheckedField {
    fn schema(&self, refer: Refer<'_>) -> Value {
        let schema = Check::schema_of(&self.check, refer);
        if self.optional { nullable(schema) } else { schema }
    }
}

impl Members {
    fn to_values(&self) -> Vec<Value> {
        let numbers = self.numbers.iter().map(|number| (*number).into());
        numbers.chain(self.texts.iter().map(|text| text.as_ref().into())).collect()
    }
}

/// The same or null.
pub(crate) fn nullable(mut schema: Value) -> Value {
    if let Some(kind) = schema.get_mut("type") {
        *kind = json!([kind.take(), "null"]);
        return schema;
    }
    let takes_all = schema.as_object().is_some_and(Map::is_empty);
    if takes_all { schema } else { json!({ "anyOf": [schema, { "type": "null" }] }) }
}

/// A schema of the keywords that say something.
fn typed<'a>(kind: &str, all: impl IntoIterator<Item = (&'a str, Option<Value>)>) -> Value {
    let all = all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    [("type".to_owned(), kind.into())].into_iter().chain(all).collect()
}

fn length_of<'a>(
    least: &'a str,
    most: &'a str,
    LengthRange { min, max }: LengthRange,
) -> [(&'a str, Option<Value>); 2] {
    [(least, (min > 0).then(|| min.into())), (most, (max < usize::MAX).then(|| max.into()))]
}

/// The pattern of padded base64 of so many bytes, without bits after the last one.
fn base64_of(LengthRange { min, max }: LengthRange) -> String {
    let ends = [(0, ""), (1, "[A-Za-z0-9+/][AQgw]=="), (2, "[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=")];
    let all = ends.into_iter().filter_map(|(bytes, end)| {
        let (least, most) = (min.saturating_sub(bytes).div_ceil(3), max.checked_sub(bytes)? / 3);
        (least <= most).then_some(())?;
        let most = if max == usize::MAX { String::new() } else { most.to_string() };
        Some(format!("(?:[A-Za-z0-9+/]{{4}}){{{least},{most}}}{end}"))
    });
    format!("^(?:{})$", all.collect::<Vec<_>>().join("|"))
}

/// A limit; `None` if there is none.
fn number(limit: f64) -> Option<Value> {
    let limit = limit.is_finite().then_some(limit)?;
    Some(whole(limit).map_or_else(|| limit.into(), Value::from))
}

/// A pattern of ECMAScript without flags that [`Pattern`](super::check::Pattern) takes, as the flag `u`
/// wants it, which JSON Schema recommends: no needless escapes, and no brackets that stand for themselves.
fn in_unicode_mode(pattern: &str) -> String {
    let (mut out, mut in_class, mut in_count) = (String::new(), false, false);
    let mut chars = pattern.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' => {
                let escaped = chars.next().unwrap_or(char);
                let is_needed = escaped.is_ascii_alphanumeric()
                    || r"^$\.*+?()[]{}|/".contains(escaped)
                    || (in_class && escaped == '-');
                out.extend(is_needed.then_some(char));
                out.push(escaped);
                continue;
            }
            '[' if !in_class => in_class = true,
            ']' if in_class => in_class = false,
            '{' if !in_class => in_count = true,
            '}' if in_count => in_count = false,
            ']' | '}' if !in_class => out.push('\\'),
            _ => {}
        }
        out.push(char);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::in_unicode_mode;

    #[test]
    fn patterns_are_written_for_the_unicode_mode() {
        for (pattern, written) in [
            (r"^[a-z]{2,3}\d+$", r"^[a-z]{2,3}\d+$"),
            (r"^]}$", r"^\]\}$"),
            (r"\/\.\*\-\#\&\~", r"\/\.\*-#&~"),
            (r"[\d\-\#{}[]", r"[\d\-#{}[]"),
            (r"(?<x>é)\x41\u0042", r"(?<x>é)\x41\u0042"),
        ] {
            assert_eq!(in_unicode_mode(pattern), written);
        }
    }
}
