//! The schemas of a single function, as tools of language models have them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{HttpFront, Interface};
use crate::iface::{Definition, Function, ResultCheck};

/// The JSON Schemas (2020-12) of the parameters of a function and of its result, with custom types written where they
/// are used: models read them so. A result that is no object has none.
#[must_use]
pub fn tool_schemas(definition: &Definition, function: &Function) -> (Value, Option<Value>) {
    // of all operations, and nothing of one schema
    let (title, version, path, schemes) = ("", "", "", &[]);
    let (methods, examples) = (&|_: &_| &[][..], &BTreeMap::new());
    let (problem_status, messages) = (None, false);
    let front =
        HttpFront { title, version, path, methods, schemes, problem_status, messages, examples };
    // so nothing is referred to by its name
    let (name, names) = (String::new(), BTreeMap::new());
    let interface = Interface { front: &front, definition, name, names };
    let result = match &function.result {
        ResultCheck::Nothing | ResultCheck::Raw => None,
        ResultCheck::Whole(check) => Some(interface.schema(check)),
        ResultCheck::Variables(variables) => Some(interface.variables(variables)),
    };
    (interface.params(function), result.filter(|result| result["type"] == "object"))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::iface::{Loader, Source};

    #[test]
    fn schemas_have_their_types_inside() {
        let file = r#"{
            "iface": "a.shop", "version": "1.0", "ftn3rev": "1.9",
            "types": {
                "Sku": { "type": "string", "minlen": 1, "desc": "Of a product" },
                "Item": { "type": "map", "fields": { "sku": "Sku", "qty": "integer" } },
                "Items": { "type": "array", "elemtype": "Item" }, "Other": "string"
            },
            "funcs": {
                "order": { "params": { "items": "Items", "key": { "type": "string", "default": null } }, "result": "Item" },
                "stock": { "result": { "stock": { "type": "number", "desc": "Units" } } },
                "name": { "result": "Sku" }, "forget": {}
            }
        }"#;
        let files = [("a.shop-1.0-iface.json", file)];
        let mut loader = Loader::new([Source::texts(files)]);
        let definition = loader.load(&"a.shop:1.0".parse().unwrap()).unwrap();
        let mut all = String::new();
        for function in definition.functions() {
            let (input, output) = tool_schemas(&definition, function);
            let output = output.map_or_else(|| "nothing".to_owned(), |output| output.to_string());
            all += &format!("{}: {input}\n    {output}\n", function.name());
        }
        expect![[r#"
            forget: {"additionalProperties":false,"properties":{},"required":[],"type":"object"}
                nothing
            name: {"additionalProperties":false,"properties":{},"required":[],"type":"object"}
                nothing
            order: {"additionalProperties":false,"properties":{"items":{"items":{"properties":{"qty":{"maximum":2147483647,"minimum":-2147483648,"type":"integer"},"sku":{"minLength":1,"type":"string"}},"required":["sku","qty"],"type":"object"},"type":"array"},"key":{"type":["string","null"]}},"required":["items"],"type":"object"}
                {"properties":{"qty":{"maximum":2147483647,"minimum":-2147483648,"type":"integer"},"sku":{"minLength":1,"type":"string"}},"required":["sku","qty"],"type":"object"}
            stock: {"additionalProperties":false,"properties":{},"required":[],"type":"object"}
                {"additionalProperties":false,"properties":{"stock":{"description":"Units","type":"number"}},"required":["stock"],"type":"object"}
        "#]].assert_eq(&all);
    }
}
