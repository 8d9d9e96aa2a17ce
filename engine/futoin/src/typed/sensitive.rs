//! Fields that are not shown to everyone who may look.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How the schema of such a field is marked.
const MARK: &str = "x-sensitive";

/// What is shown in place of a value.
const REDACTED: &str = "[redacted]";

/// A field of a type, such as of a result, that is for its caller and not for others who look: it is written, read and
/// declared as the value itself, its `Debug` shows nothing of it, and [`SensitiveFields`] hide it.
///
/// ```
/// use asyncsteps_futoin::typed::{Sensitive, SensitiveFields};
/// use schemars::JsonSchema;
/// use serde::Serialize;
/// use serde_json::json;
///
/// #[derive(Debug, Serialize, JsonSchema)]
/// struct Shipped { parcel: i32, to: Sensitive<String> }
///
/// let shipped = Shipped { parcel: 7, to: Sensitive("Ann, 1 High Street".to_owned()) };
/// assert_eq!(format!("{shipped:?}"), "Shipped { parcel: 7, to: [redacted] }");
/// let mut shown = serde_json::to_value(shipped)?;
/// assert_eq!(shown, json!({ "parcel": 7, "to": "Ann, 1 High Street" }));
/// SensitiveFields::of::<Shipped>().redact(&mut shown);
/// assert_eq!(shown, json!({ "parcel": 7, "to": "[redacted]" }));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sensitive<T>(pub T);

impl<T> fmt::Debug for Sensitive<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl<T: JsonSchema> JsonSchema for Sensitive<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Sensitive{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = generator.subschema_for::<T>();
        schema.insert(MARK.to_owned(), true.into());
        schema
    }
}

/// The [`Sensitive`] fields of a type, to hide them in values of it.
#[derive(Clone, Debug)]
pub struct SensitiveFields {
    /// The schema of the type; `None` if it has no such field.
    schema: Option<Arc<Value>>,
}

impl SensitiveFields {
    /// The fields of a type, at any depth.
    #[must_use]
    pub fn of<T: JsonSchema>() -> Self {
        let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
        let schema = generator.into_root_schema_for::<T>().to_value();
        let is_marked = schema.to_string().contains(&format!("{MARK:?}:true"));
        Self { schema: is_marked.then(|| Arc::new(schema)) }
    }

    /// Puts `[redacted]` in place of sensitive fields, and of fields that the type does not have, if it has any
    /// sensitive ones: an earlier program may have written these under another name.
    pub fn redact(&self, value: &mut Value) {
        if let Some(schema) = &self.schema {
            redact(value, vec![schema], schema);
        }
    }
}

fn redact(value: &mut Value, schemas: Vec<&Value>, root: &Value) {
    let schemas = alternatives(schemas, root);
    if schemas.iter().any(|schema| schema[MARK] == true) {
        *value = REDACTED.into();
        return;
    }
    match value {
        Value::Object(fields) => {
            let is_known = schemas.iter().any(|schema| schema["properties"].is_object());
            for (name, field) in fields {
                let inner: Vec<_> = schemas.iter().filter_map(|it| of_field(it, name)).collect();
                match inner.is_empty() && is_known {
                    true => *field = REDACTED.into(),
                    false => redact(field, inner, root),
                }
            }
        }
        Value::Array(items) => {
            for (place, item) in items.iter_mut().enumerate() {
                let inner = schemas.iter().filter_map(|it| of_item(it, place)).collect();
                redact(item, inner, root);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn of_field<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    let others = || schema.get("additionalProperties").filter(|others| **others != false);
    schema["properties"].get(name).or_else(others)
}

fn of_item(schema: &Value, place: usize) -> Option<&Value> {
    schema["prefixItems"].get(place).or_else(|| schema.get("items"))
}

/// The schemas with all that they refer to and may be instead.
fn alternatives<'a>(mut schemas: Vec<&'a Value>, root: &'a Value) -> Vec<&'a Value> {
    let mut next = 0;
    while let Some(schema) = schemas.get(next).copied() {
        let reference = schema["$ref"].as_str().and_then(|it| root.pointer(it.strip_prefix('#')?));
        let several = ["anyOf", "oneOf", "allOf"].map(|name| schema[name].as_array());
        for more in reference.into_iter().chain(several.into_iter().flatten().flatten()) {
            // a type that contains itself refers to a schema that is there
            if !schemas.iter().any(|known| std::ptr::eq(*known, more)) {
                schemas.push(more);
            }
        }
        next += 1;
    }
    schemas
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::typed::Interface;

    #[derive(Serialize, JsonSchema)]
    struct Person {
        id: u32,
        name: Sensitive<String>,
        mail: Option<Sensitive<String>>,
        home: Sensitive<Address>,
        ways: Vec<Way>,
        friends: BTreeMap<String, Self>,
        pair: (u32, Sensitive<u32>),
    }

    #[derive(Serialize, JsonSchema)]
    struct Address {
        street: String,
    }

    #[derive(Serialize, JsonSchema)]
    enum Way {
        None,
        Phone(Sensitive<String>),
        Letter { to: Address, from: Sensitive<Address> },
    }

    fn address() -> Address {
        Address { street: "1 High Street".to_owned() }
    }

    fn ann() -> Person {
        let way = || Way::Letter { to: address(), from: Sensitive(address()) };
        Person {
            id: 7,
            name: Sensitive("Ann".to_owned()),
            mail: Some(Sensitive("ann@example.org".to_owned())),
            home: Sensitive(address()),
            ways: vec![Way::None, Way::Phone(Sensitive("4711".to_owned())), way()],
            friends: BTreeMap::new(),
            pair: (1, Sensitive(2)),
        }
    }

    #[test]
    fn sensitive_fields_are_hidden_at_any_depth() {
        let friends = BTreeMap::from([("bob".to_owned(), Person { mail: None, ..ann() })]);
        let mut shown = serde_json::to_value(Person { friends, ..ann() }).expect("JSON");
        SensitiveFields::of::<Person>().redact(&mut shown);
        let hidden = "[redacted]";
        let person = |mail, friends| {
            json!({
                "id": 7,
                "name": hidden,
                "mail": mail,
                "home": hidden,
                "ways": [
                    "None",
                    { "Phone": hidden },
                    { "Letter": { "to": { "street": "1 High Street" }, "from": hidden } },
                ],
                "friends": friends,
                "pair": [1, hidden],
            })
        };
        // whether there is one is not told either
        assert_eq!(shown, person(hidden, json!({ "bob": person(hidden, json!({})) })));
    }

    #[test]
    fn what_the_type_does_not_have_is_hidden_too() {
        let mut shown = json!({ "id": 7, "e-mail": "ann@example.org", "ways": [{ "Fax": "1" }] });
        SensitiveFields::of::<Person>().redact(&mut shown);
        let hidden = json!({ "id": 7, "e-mail": "[redacted]", "ways": [{ "Fax": "[redacted]" }] });
        assert_eq!(shown, hidden);
        // without a sensitive field all is shown
        let plain = json!({ "street": "1 High Street", "city": "London" });
        let mut shown = plain.clone();
        SensitiveFields::of::<Address>().redact(&mut shown);
        assert_eq!(shown, plain);
    }

    #[test]
    fn a_sensitive_result_is_hidden_as_a_whole_and_declared_as_its_type() {
        let mut shown = json!("Ann");
        SensitiveFields::of::<Sensitive<String>>().redact(&mut shown);
        assert_eq!(shown, "[redacted]");
        let declared = |interface: &mut Interface| interface.to_json().expect("it is written");
        let mut with = Interface::new("a.b:1.0".parse().expect("a name"));
        with.function::<(), Sensitive<String>>("f");
        let mut without = Interface::new("a.b:1.0".parse().expect("a name"));
        without.function::<(), String>("f");
        assert_eq!(declared(&mut with), declared(&mut without));
    }
}
