//! The part of a value that its type refuses.

use std::borrow::Cow;

use serde_json::Value;

use super::{Check, CheckPass};
use crate::iface::violation::clipped;

/// A part of a refused value: its name, and, unless it is absent, the type that refuses it and its value.
type Part<'a> = (Cow<'a, str>, Option<(&'a Check, &'a Value)>);

impl Check {
    /// Where the first part is that a refused value is refused for, as a JSON Pointer (RFC 6901): empty for the value
    /// itself.
    pub(crate) fn refused_at(&self, value: &Value) -> String {
        let (mut pointer, mut whole) = (String::new(), Some((self, value)));
        while let Some((name, part)) = whole.and_then(|(check, value)| check.refused_part(value)) {
            pointer.push('/');
            pointer.push_str(&clipped(&name).replace('~', "~0").replace('/', "~1"));
            whole = part;
        }
        pointer
    }

    fn refused_part<'a>(&'a self, value: &'a Value) -> Option<Part<'a>> {
        match (self, value) {
            (Self::Array { length, element: Some(element) }, Value::Array(items)) => {
                let items = length.holds(items.len()).then_some(items)?;
                let index = items.iter().position(|item| !element.accepts(item))?;
                Some((index.to_string().into(), items.get(index).map(|item| (&**element, item))))
            }
            (Self::Map { fields, element }, Value::Object(map)) => {
                let mut pass = CheckPass { must_normalize: false };
                if let Some(field) = fields.iter().find(|field| !pass.field(field, map)) {
                    let part = map.get(&*field.name).map(|value| (&*field.check, value));
                    return Some((Cow::Borrowed(&field.name), part));
                }
                let element = element.as_ref()?;
                let (key, item) = map.iter().find(|(_, item)| !element.accepts(item))?;
                Some((Cow::Borrowed(key), Some((element, item))))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::iface::fixture::{iface, load};

    #[test]
    fn the_first_refused_part_is_found_by_its_names() {
        let definition = load(&[iface(json!({
            "types": {
                "Qty": {"type": "integer", "min": 1},
                "Item": {"type": "map", "fields": {"sku": "string", "qty": "Qty"}},
                "Items": {"type": "array", "elemtype": "Item", "maxlen": 2},
                "Shelves": {"type": "map", "elemtype": "Items"},
            },
            "funcs": {"f": {"params": {"shelves": "Shelves"}}},
        }))])
        .unwrap();
        let shelves = &definition.function("f").unwrap().param("shelves").unwrap().check;
        let good = json!({"sku": "tea", "qty": 1});
        for (value, at) in [
            (json!([]), ""),
            (json!({"a": 5}), "/a"),
            (json!({"a": [good, good, {}]}), "/a"),
            (json!({"a": [good], "b": [good, {"sku": "tea"}]}), "/b/1/qty"),
            (json!({"a/~": [{"sku": "tea", "qty": 0}]}), "/a~1~0/0/qty"),
            (json!({"k".repeat(100): null}), &format!("/{}", "k".repeat(64))),
        ] {
            assert_eq!(shelves.refused_at(&value), at, "{value}");
        }
    }
}
