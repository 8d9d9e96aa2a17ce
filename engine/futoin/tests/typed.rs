//! The promise: Rust types that fit a definition serve all of its requests, each point in which they
//! do not fit is named, and a definition that is written down from types fits them.
#![expect(dead_code, reason = "the types are there for their schemas")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use asyncsteps_futoin::iface::{Definition, Loader, Source};
use asyncsteps_futoin::message::Data;
use asyncsteps_futoin::security::SecurityLevel;
use asyncsteps_futoin::typed::{Interface, InterfaceError, differences};
use expect_test::{Expect, expect};
use schemars::JsonSchema;
use serde_json::{Value, json};

/// A definition whose function `f` has these parameters and this result.
fn definition(params: Value, result: Value) -> Arc<Definition> {
    let mut function = json!({ "params": params });
    if !result.is_null() {
        function["result"] = result;
    }
    let file = json!({
        "iface": "a.b", "version": "1.0", "ftn3rev": "1.9",
        "types": {
            "Count": { "type": "integer", "min": 0, "max": 200 },
            "Name": { "type": "string", "minlen": 1, "maxlen": 64 },
            "Sku": { "type": "string", "regex": "^[a-z]+$" },
            "Colour": { "type": "enum", "items": ["red", "green"] },
            "Colours": { "type": "set", "items": ["red", "green"] },
            "Names": { "type": "array", "elemtype": "Name" },
            "Prices": { "type": "map", "elemtype": "number" },
            "Item": { "type": "map", "fields": {
                "sku": "string", "qty": "Count", "note": { "type": "string", "optional": true },
            } },
            "Items": { "type": "array", "elemtype": "Item", "maxlen": 100 },
            "TextOrCount": ["string", "Count"],
        },
        "funcs": { "f": function },
    });
    let source = Source::texts([("a.b-1.0-iface.json", file.to_string())]);
    let id = "a.b:1.0".parse().expect("a name");
    Loader::new([source]).load(&id).expect("a definition")
}

fn check<P: JsonSchema, R: JsonSchema>(params: Value, result: Value, expect: Expect) {
    let found = differences::<P, R>(&definition(params, result), "f");
    let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
    expect.assert_eq(&lines.join("\n"));
}

#[derive(JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Colour {
    Red,
    Green,
}

#[derive(JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "lowercase")]
enum Shade {
    Red,
    Green,
    Blue,
}

#[derive(JsonSchema)]
struct Item {
    sku: String,
    qty: u8,
    note: Option<String>,
}

#[derive(JsonSchema)]
#[serde(untagged)]
enum TextOrCount {
    Text(String),
    Count(u8),
}

#[derive(JsonSchema)]
struct All {
    flag: bool,
    whole: i32,
    count: u8,
    number: f64,
    text: String,
    name: String,
    blob: Data,
    colour: Colour,
    list: Vec<Value>,
    names: Vec<String>,
    prices: BTreeMap<String, f64>,
    item: Item,
    items: Vec<Item>,
    either: TextOrCount,
    anything: Value,
    maybe: Option<String>,
    often: i32,
}

#[test]
fn types_that_fit_have_no_differences() {
    let params = json!({
        "flag": "boolean", "whole": "integer", "count": "Count", "number": "number",
        "text": "string", "name": "Name", "blob": "data", "colour": "Colour", "list": "array",
        "names": "Names", "prices": "Prices", "item": "Item", "items": "Items",
        "either": "TextOrCount", "anything": "any",
        "maybe": { "type": "string", "default": null },
        "often": { "type": "integer", "default": 7 },
    });
    check::<All, ()>(params.clone(), Value::Null, expect![[""]]);
    // a map takes what it gets
    check::<BTreeMap<String, Value>, ()>(params.clone(), Value::Null, expect![[""]]);
    check::<Value, ()>(params, Value::Null, expect![[""]]);
}

#[test]
fn parameters_that_only_one_side_has_are_named() {
    #[derive(JsonSchema)]
    struct Params {
        text: String,
        more: Option<String>,
    }
    check::<Params, ()>(
        json!({ "text": "string", "count": "Count" }),
        Value::Null,
        expect![[r#"
            parameter count: the Rust type has no such field
            parameter more: the definition does not declare it"#]],
    );
    check::<(), ()>(
        json!({ "text": "string" }),
        Value::Null,
        expect!["parameter text: the Rust type has no such field"],
    );
    check::<String, ()>(
        json!({ "text": "string" }),
        Value::Null,
        expect!["parameters: the Rust type has string, no map"],
    );
}

#[test]
fn values_that_a_parameter_may_have_and_the_type_cannot_read_are_named() {
    #[derive(JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Strict {
        sku: String,
        qty: i8,
        note: String,
    }
    #[derive(JsonSchema)]
    struct Params {
        text: i32,
        whole: u32,
        number: i64,
        maybe: String,
        item: Strict,
        items: Vec<Strict>,
        colour: BTreeSet<Shade>,
        either: String,
        #[schemars(length(min = 3))]
        long: String,
        #[schemars(regex(pattern = "^[A-Z]$"))]
        letter: String,
    }
    check::<Params, ()>(
        json!({
            "text": "string", "whole": "integer", "number": "number",
            "maybe": { "type": "string", "default": null },
            "item": "Item", "items": "Items", "colour": "Colour", "either": "TextOrCount",
            "long": "Name", "letter": "Sku",
        }),
        Value::Null,
        expect![[r#"
            parameter colour: the Rust type has set of "red", "green", "blue", the definition has enum of "red", "green"
            parameter either: the Rust type has string, the definition has string or integer from 0 to 200
            parameter item.note: the Rust type has string, the definition has string or null
            parameter item.qty: the Rust type has integer from -128 to 127, the definition has integer from 0 to 200
            parameter items[].note: the Rust type has string, the definition has string or null
            parameter items[].qty: the Rust type has integer from -128 to 127, the definition has integer from 0 to 200
            parameter letter: the Rust type has string like ^[A-Z]$, the definition has string like ^[a-z]+$
            parameter long: the Rust type has string of length 3 at least, the definition has string of length 1 to 64
            parameter maybe: the Rust type has string, the definition has string or null
            parameter number: the Rust type has integer from -9223372036854776000 to 9223372036854776000, the definition has number
            parameter text: the Rust type has integer from -2147483648 to 2147483647, the definition has string
            parameter whole: the Rust type has integer from 0 to 4294967295, the definition has integer from -2147483648 to 2147483647"#]],
    );
}

#[test]
fn values_of_a_result_that_the_definition_refuses_are_named() {
    #[derive(JsonSchema)]
    struct Result {
        total: u64,
        order: Option<i32>,
        shade: Shade,
        #[serde(skip_serializing_if = "Option::is_none")]
        note: Option<String>,
        items: Vec<Item>,
        more: bool,
    }
    check::<(), Result>(
        json!({}),
        json!({
            "total": "integer", "order": "integer", "shade": "Colour", "note": "string",
            "items": "Items", "missing": "string",
        }),
        expect![[r#"
            result items: the Rust type has array of map (Item), the definition has array of length 100 at most of map (Item)
            result missing: the Rust type has no such field
            result note: the Rust type has string or null, the definition has string
            result note: the Rust type may leave it out
            result order: the Rust type has integer from -2147483648 to 2147483647 or null, the definition has integer from -2147483648 to 2147483647
            result shade: the Rust type has enum of "red", "green", "blue", the definition has enum of "red", "green"
            result total: the Rust type has integer from 0 to 18446744073709552000, the definition has integer from -2147483648 to 2147483647
            result more: the definition has no such field"#]],
    );
    check::<(), ()>(
        json!({}),
        json!({ "total": "integer" }),
        expect!["result: the Rust type has null, the definition has map"],
    );
    check::<(), u8>(
        json!({}),
        Value::Null,
        expect!["result: the Rust type has integer from 0 to 255, the definition has none"],
    );
    check::<(), u8>(
        json!({}),
        json!("Count"),
        expect![
            "result: the Rust type has integer from 0 to 255, the definition has integer from 0 to 200"
        ],
    );
    check::<(), BTreeSet<Shade>>(
        json!({}),
        json!("Colours"),
        expect![[
            r#"result: the Rust type has set of "red", "green", "blue", the definition has set of "red", "green""#
        ]],
    );
    check::<(), Vec<Colour>>(
        json!({}),
        json!("Colours"),
        expect![[
            r#"result: the Rust type has array of enum of "red", "green", the definition has set of "red", "green""#
        ]],
    );
}

#[test]
fn a_type_that_contains_itself_fits_any_alone() {
    #[derive(JsonSchema)]
    struct Tree {
        children: Vec<Self>,
    }
    #[derive(JsonSchema)]
    struct Forest {
        trees: Vec<Tree>,
    }
    check::<(), Forest>(json!({}), json!({ "trees": "array" }), expect![[""]]);
    check::<(), Forest>(
        json!({}),
        json!({ "trees": "Items" }),
        expect![
            "result trees: the Rust type has array of map (Tree), the definition has array of length 100 at most of map (Item)"
        ],
    );
}

#[test]
fn a_definition_is_written_from_types_and_fits_them() {
    #[derive(JsonSchema)]
    struct Params {
        #[schemars(length(min = 1, max = 64))]
        customer: String,
        #[schemars(range(min = 1))]
        amount: u32,
        items: Vec<Item>,
        colours: BTreeSet<Shade>,
        either: TextOrCount,
        /// What the customer says.
        note: Option<String>,
        #[serde(default)]
        times: u8,
        blob: Data,
        prices: BTreeMap<String, f64>,
    }
    #[derive(JsonSchema)]
    struct Gives {
        /// Its number.
        order: i32,
        items: Vec<Item>,
        extra: Value,
    }
    let mut interface = Interface::new("a.b:1.0".parse().expect("a name"));
    interface
        .function::<Params, Gives>("buy")
        .throws(["OutOfStock"])
        .seclvl(SecurityLevel::SafeOps)
        .heavy();
    interface.function::<(), Vec<String>>("names");
    interface.allow_anonymous();
    let written = interface.to_json().expect("types of FTN3");
    expect![[r#"
        {
          "ftn3rev": "1.9",
          "funcs": {
            "buy": {
              "heavy": true,
              "params": {
                "amount": {
                  "type": "BuyAmount"
                },
                "blob": {
                  "type": "data"
                },
                "colours": {
                  "type": "BuyColours"
                },
                "customer": {
                  "type": "BuyCustomer"
                },
                "either": {
                  "type": "BuyEither"
                },
                "items": {
                  "type": "BuyItems"
                },
                "note": {
                  "default": null,
                  "desc": "What the customer says.",
                  "type": "string"
                },
                "prices": {
                  "type": "BuyPrices"
                },
                "times": {
                  "default": 0,
                  "type": "BuyTimes"
                }
              },
              "result": {
                "extra": "any",
                "items": "BuyItems",
                "order": {
                  "desc": "Its number.",
                  "type": "integer"
                }
              },
              "seclvl": "SafeOps",
              "throws": [
                "OutOfStock"
              ]
            },
            "names": {
              "result": "NamesResult"
            }
          },
          "iface": "a.b",
          "requires": [
            "AllowAnonymous"
          ],
          "types": {
            "BuyAmount": {
              "min": 1,
              "type": "integer"
            },
            "BuyColours": {
              "items": [
                "red",
                "green",
                "blue"
              ],
              "type": "set"
            },
            "BuyCustomer": {
              "maxlen": 64,
              "minlen": 1,
              "type": "string"
            },
            "BuyEither": [
              "string",
              "BuyEither2"
            ],
            "BuyEither2": {
              "max": 255,
              "min": 0,
              "type": "integer"
            },
            "BuyItems": {
              "elemtype": "Item",
              "type": "array"
            },
            "BuyPrices": {
              "elemtype": "number",
              "type": "map"
            },
            "BuyTimes": {
              "max": 255,
              "min": 0,
              "type": "integer"
            },
            "Item": {
              "fields": {
                "note": {
                  "optional": true,
                  "type": "string"
                },
                "qty": {
                  "optional": false,
                  "type": "ItemQty"
                },
                "sku": {
                  "optional": false,
                  "type": "string"
                }
              },
              "type": "map"
            },
            "ItemQty": {
              "max": 255,
              "min": 0,
              "type": "integer"
            },
            "NamesResult": {
              "elemtype": "string",
              "type": "array"
            }
          },
          "version": "1.0"
        }"#]]
    .assert_eq(&format!("{written:#}"));
    let definition = interface.definition().expect("a definition");
    assert_eq!(differences::<Params, Gives>(&definition, "buy"), []);
    assert_eq!(differences::<(), Vec<String>>(&definition, "names"), []);
}

#[test]
fn what_cannot_be_written_is_told() {
    #[derive(JsonSchema)]
    struct Large {
        total: i64,
    }
    #[derive(JsonSchema)]
    struct Nulls {
        all: Vec<Option<u8>>,
    }
    #[derive(JsonSchema)]
    struct Tree {
        children: Vec<Self>,
    }
    #[derive(JsonSchema)]
    #[serde(rename_all = "camelCase")]
    struct Booking {
        flight_number: String,
    }
    fn told<P: JsonSchema, R: JsonSchema>() -> String {
        told_of::<P, R>("f", "Gone")
    }
    fn told_of<P: JsonSchema, R: JsonSchema>(function: &str, code: &str) -> String {
        let mut interface = Interface::new("a.b:1.0".parse().expect("a name"));
        interface.function::<P, R>(function).throws([code]);
        match interface.definition() {
            Err(InterfaceError::Unwritable(error)) => error.to_string(),
            other => panic!("{other:?}"),
        }
    }
    let all = [
        told::<(), Large>(),
        told::<Nulls, ()>(),
        told::<Tree, ()>(),
        told::<String, ()>(),
        told::<Booking, ()>(),
        told::<(), Booking>(),
        told::<(), Vec<Booking>>(),
        told_of::<(), ()>("book_durably", "Gone"),
        told_of::<(), ()>("f", "no_seats"),
    ];
    expect![[r#"
        result total of f: integers of FTN3 have 32 bits: use i32, or f64 for larger ones
        parameter all[] of f: FTN3 has no null, and a result has all of its variables: use `Option<T>` in a parameter, or in a field of a struct inside of the result
        parameter children[] of f: Tree contains itself, and no type of FTN3 does: use a map
        parameters of f: string has no fields: use a struct
        parameter flightNumber of f: FTN3 names parameters, results and fields like some_name: write flight_number
        result flightNumber of f: FTN3 names parameters, results and fields like some_name: write flight_number
        result result[].flightNumber of f: FTN3 names parameters, results and fields like some_name: write flight_number
        function book_durably: FTN3 names functions like someFunc: write bookDurably
        error no_seats of f: FTN3 names errors like SomeError or SOME_ERROR: write NoSeats"#]]
    .assert_eq(&all.join("\n"));
}
