//! The schemas of a single function, as tools of language models have them.

use serde_json::{Map, Value};

use super::{HttpFront, Interface};
use crate::iface::{Definition, Function, ResultCheck};

/// The JSON Schemas (2020-12) of the parameters of a function and of its result, each with the types that it names in
/// its `$defs`. A result that is no object has none.
#[must_use]
pub fn tool_schemas(definition: &Definition, function: &Function) -> (Value, Option<Value>) {
    // of what schemas refer to
    let front = HttpFront {
        title: "",
        version: "",
        path: "",
        methods: &|_| &[],
        schemes: &[],
        problem_status: None,
    };
    let interface = Interface::new(&front, definition);
    let result = match &function.result {
        ResultCheck::Nothing | ResultCheck::Raw => None,
        ResultCheck::Whole(check) => Some(check.json_schema(&|check| interface.reference(check))),
        ResultCheck::Variables(variables) => Some(interface.variables(variables)),
    };
    let result = result.filter(|result| result["type"] == "object");
    let whole = |schema| interface.with_types(schema);
    (whole(interface.params(function)), result.map(whole))
}

impl Interface<'_> {
    /// A schema with the custom types that it refers to, and that they refer to.
    fn with_types(&self, mut schema: Value) -> Value {
        let (mut types, mut left) = (Map::new(), Vec::new());
        self.refer_inside(&mut schema, &mut left);
        while let Some(name) = left.pop() {
            let Some(custom) = self.definition.types.get(&*name) else { continue };
            if types.contains_key(&name) {
                continue;
            }
            let written = custom.check.json_schema(&|check| self.reference(check));
            let mut written = super::described(written, custom.desc.as_deref());
            self.refer_inside(&mut written, &mut left);
            types.insert(name, written);
        }
        if !types.is_empty() {
            schema["$defs"] = types.into();
        }
        schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
        schema
    }

    /// Turns references to components of a document into ones to `$defs`, and notes the types.
    fn refer_inside(&self, schema: &mut Value, types: &mut Vec<String>) {
        match schema {
            Value::Object(schema) => {
                let component = schema.get("$ref").and_then(Value::as_str);
                let name = component.and_then(|it| it.rsplit_once('.')).map(|(_, name)| name);
                if let Some(name) = name.map(str::to_owned) {
                    schema.insert("$ref".to_owned(), format!("#/$defs/{name}").into());
                    types.push(name);
                }
                schema.values_mut().for_each(|inner| self.refer_inside(inner, types));
            }
            Value::Array(list) => list.iter_mut().for_each(|it| self.refer_inside(it, types)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::iface::{Loader, Source};

    #[test]
    fn schemas_have_the_types_that_they_name_and_no_others() {
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
        expect![[r##"
            forget: {"$schema":"https://json-schema.org/draft/2020-12/schema","additionalProperties":false,"properties":{},"required":[],"type":"object"}
                nothing
            name: {"$schema":"https://json-schema.org/draft/2020-12/schema","additionalProperties":false,"properties":{},"required":[],"type":"object"}
                nothing
            order: {"$defs":{"Item":{"properties":{"qty":{"maximum":2147483647,"minimum":-2147483648,"type":"integer"},"sku":{"$ref":"#/$defs/Sku"}},"required":["sku","qty"],"type":"object"},"Items":{"items":{"$ref":"#/$defs/Item"},"type":"array"},"Sku":{"description":"Of a product","minLength":1,"type":"string"}},"$schema":"https://json-schema.org/draft/2020-12/schema","additionalProperties":false,"properties":{"items":{"$ref":"#/$defs/Items"},"key":{"default":null,"type":["string","null"]}},"required":["items"],"type":"object"}
                {"$defs":{"Sku":{"description":"Of a product","minLength":1,"type":"string"}},"$schema":"https://json-schema.org/draft/2020-12/schema","properties":{"qty":{"maximum":2147483647,"minimum":-2147483648,"type":"integer"},"sku":{"$ref":"#/$defs/Sku"}},"required":["sku","qty"],"type":"object"}
            stock: {"$schema":"https://json-schema.org/draft/2020-12/schema","additionalProperties":false,"properties":{},"required":[],"type":"object"}
                {"$schema":"https://json-schema.org/draft/2020-12/schema","additionalProperties":false,"properties":{"stock":{"description":"Units","type":"number"}},"required":["stock"],"type":"object"}
        "##]].assert_eq(&all);
    }
}
