//! One form of equal values, by which the uses of a key are compared.

use serde_json::{Map, Value};

use super::{Check, CheckedField, normalize_integer};
use crate::iface::Function;

impl Function {
    /// The canonical form of parameters that were [checked](Self::check_params), which is the same for equal ones, also
    /// under a later definition that adds parameters: without those that have their default, fields of maps that are
    /// null or that their type does not declare, and the order of sets; and with numbers by their value.
    #[must_use]
    pub fn canonical_params(&self, params: &Map<String, Value>) -> Map<String, Value> {
        let canonical = |(name, value): (&String, &Value)| {
            let param = self.param(name)?;
            let canonical = |value| canonical(&param.check, value);
            let value = canonical(value);
            let is_default = param.default.as_ref().is_some_and(|it| canonical(it) == value);
            (!is_default).then(|| (name.clone(), value))
        };
        params.iter().filter_map(canonical).collect()
    }
}

/// The canonical form of a value of this type.
fn canonical(check: &Check, value: &Value) -> Value {
    match (check, value) {
        (Check::AnyOf(kinds), _) => match kinds.iter().find(|kind| kind.accepts(value)) {
            Some(kind) => canonical(kind, value),
            None => plain(value),
        },
        (Check::Set(_), Value::Array(items)) => {
            let mut items: Vec<_> = items.iter().map(plain).collect();
            items.sort_by_cached_key(Value::to_string);
            items.into()
        }
        (Check::Array { element: Some(element), .. }, Value::Array(items)) => {
            items.iter().map(|item| canonical(element, item)).collect()
        }
        (Check::Map { fields, element }, Value::Object(map)) => {
            let entry = |(name, value): (&String, &Value)| {
                let declared = fields.iter().find(|field| *field.name == **name);
                let value = match (declared, element) {
                    (Some(CheckedField { optional: true, .. }), _) if value.is_null() => None,
                    (Some(field), _) => Some(canonical(&field.check, value)),
                    (None, Some(element)) => Some(canonical(element, value)),
                    // such a field says nothing, where others are declared
                    (None, None) => fields.is_empty().then(|| plain(value)),
                };
                Some((name.clone(), value?))
            };
            map.iter().filter_map(entry).collect()
        }
        _ => plain(value),
    }
}

/// The canonical form of a value whose type says nothing of its parts.
fn plain(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(plain).collect(),
        Value::Object(map) => {
            map.iter().map(|(name, value)| (name.clone(), plain(value))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            let mut value = value.clone();
            normalize_integer(&mut value);
            value
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::iface::Definition;
    use crate::iface::fixture::{iface, load};

    fn canonical(definition: &Definition, params: Value) -> Value {
        let function = definition.function("f").expect("it is declared");
        let mut params = params.as_object().expect("an object").clone();
        let called = "a.b:1.0:f".parse().expect("a name");
        function.check_params(&called, &mut params).expect("they are allowed");
        function.canonical_params(&params).into()
    }

    #[test]
    fn equal_parameters_have_one_form() {
        let types = json!({
            "Item": {"type": "map", "fields": {
                "sku": "string", "qty": "number", "note": {"type": "string", "optional": true},
            }},
            "Items": {"type": "array", "elemtype": "Item"},
            "Tags": {"type": "set", "items": ["a", "b", 1]},
            "Either": ["Item", "string"],
        });
        let mut params = json!({"items": "Items", "n": {"type": "number", "default": 5}});
        let definition = |params: &Value| {
            let funcs = json!({"f": {"params": params}});
            load(&[iface(json!({"types": types, "funcs": funcs}))]).expect("a definition")
        };
        let first = definition(&params);
        params["tags"] = json!({"type": "Tags", "default": []});
        params["more"] = json!({"type": "Either", "default": null});
        params["free"] = json!({"type": "any", "default": null});
        let second = definition(&params);
        let form = json!({"items": [{"sku": "a", "qty": 1}]});
        for equal in [
            json!({"items": [{"sku": "a", "qty": 1}]}),
            json!({"items": [{"qty": 1.0, "sku": "a", "note": null}], "n": null}),
            json!({"items": [{"sku": "a", "qty": 1, "unknown": {"x": 1}}], "n": 5.0}),
        ] {
            for definition in [&first, &second] {
                assert_eq!(canonical(definition, equal.clone()), form, "{equal}");
            }
        }
        for other in [
            json!({"items": [{"sku": "a", "qty": 2}]}),
            json!({"items": [{"sku": "a", "qty": 1, "note": ""}]}),
            json!({"items": [{"sku": "a", "qty": 1}], "n": 6}),
            json!({"items": [{"sku": "a", "qty": 1}, {"sku": "a", "qty": 1}]}),
        ] {
            assert_ne!(canonical(&first, other.clone()), form, "{other}");
        }
        let with = |mut more: Value| {
            more["items"] = json!([]);
            canonical(&second, more)
        };
        assert_eq!(with(json!({"tags": ["b", 1.0, "a"]})), with(json!({"tags": [1, "a", "b"]})));
        assert_eq!(
            with(
                json!({"more": {"sku": "a", "qty": -0.0, "x": 1}, "free": {"a": [2.0], "b": null}})
            ),
            with(json!({"more": {"sku": "a", "qty": 0}, "free": {"b": null, "a": [2]}})),
        );
        assert_ne!(with(json!({"free": {"b": null}})), with(json!({"free": {}})));
        let (wide, float) = (u64::MAX, 18_446_744_073_709_551_616.0);
        assert_ne!(with(json!({"free": wide})), with(json!({"free": float})));
        assert_eq!(with(json!({"free": 1u64 << 63})), with(json!({"free": 2f64.powi(63)})));
    }
}
