//! The promise: the OpenAPI documents of all interfaces are valid to a validator that is not ours, and a value
//! fits a schema if the executor takes it.
//!
//! It needs Node.js and npm.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use asyncsteps_executor::Executor;
use asyncsteps_executor::iface::{Definition, IfaceVer, Loader, Source};
use asyncsteps_executor::security::SecurityLevel;
use asyncsteps_futoin::openapi::{HttpFront, document};
use asyncsteps_observe::admin::Admin;
use asyncsteps_support::shop::{self, Data};
use asyncsteps_support::{conform, npm};
use asyncsteps_transport::http;
use serde_json::{Value, json};

/// The files of definitions of the repository.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("the folder can be read").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir()
            && !["target", "node_modules", "seeds"].contains(&name)
            && !name.starts_with('.')
        {
            files(&path, found);
        } else if name.ends_with("-iface.json") {
            found.push(path);
        }
    }
}

/// All of their definitions.
fn definitions() -> Vec<Arc<Definition>> {
    let mut found = Vec::new();
    files(Path::new(env!("CARGO_MANIFEST_DIR")), &mut found);
    let folders: BTreeSet<_> = found.iter().filter_map(|file| file.parent()).collect();
    let mut loader = Loader::new(folders.into_iter().map(Source::folder));
    let names =
        found.iter().filter_map(|file| file.file_name()?.to_str()?.strip_suffix("-iface.json"));
    let ids: BTreeSet<IfaceVer> =
        names.map(|name| name.replace('-', ":").parse().expect("a name")).collect();
    ids.iter().map(|id| loader.load(id).expect("a definition")).collect()
}

fn described(definitions: &[Arc<Definition>], status: Option<&dyn Fn(&str) -> u16>) -> Value {
    let front = HttpFront {
        title: "All",
        version: "1",
        path: "/ftn/",
        methods: &|_| &["get", "post"],
        schemes: &["Basic", "Bearer"],
        problem_status: status,
        messages: status.is_none(),
        examples: &BTreeMap::new(),
    };
    document(definitions, &front)
}

fn served(executor: Executor, has_problems: bool) -> Value {
    let service = http::service("/ftn/", executor).get_calls(|function| function.func() != "echo");
    let service = if has_problems { service.problem_details(|_| None) } else { service };
    let openapi = http::openapi(&service, "Served", "1");
    if has_problems { openapi.document() } else { openapi.document_of_all() }
}

/// The names of types, and values that some of them take.
const TYPES: &str = r#"{
    "Bool": "boolean", "Int": "integer", "Small": { "type": "integer", "min": -2, "max": 3 },
    "Half": { "type": "number", "min": -0.5 }, "Number": "number", "Text": "string",
    "Word": { "type": "string", "minlen": 2, "maxlen": 4, "regex": "^[a-z\\-]+\\#?$" },
    "Brace": { "type": "string", "regex": "^]}|\\/$" }, "Longer": { "type": "Word", "maxlen": 6 },
    "Data": "data", "Three": { "type": "data", "minlen": 3, "maxlen": 3 },
    "Bytes": { "type": "data", "minlen": 2, "maxlen": 4 }, "Byte": { "type": "data", "maxlen": 1 },
    "List": "array", "Words": { "type": "array", "elemtype": "Word", "minlen": 1, "maxlen": 2 },
    "Map": "map", "Counts": { "type": "map", "elemtype": "Small" },
    "Point": { "type": "map", "fields": {
        "x": "Small", "y": { "type": "Word", "optional": true }, "z": { "type": "any", "optional": true } } },
    "Color": { "type": "enum", "items": ["red", "1", 1, 2] }, "Colors": { "type": "set", "items": ["red", 1] },
    "Either": ["Small", "Word", "Points"], "Points": { "type": "array", "elemtype": "Point" }, "Any": "any"
}"#;

const VALUES: &str = r##"[
    null, true, 0, 1, 2, 3, 4, -2, -3, 1.0, 1e0, 0.5, -0.5, -0.6, 2147483647, 2147483648, -2147483649, 1e300,
    "", "a", "ab", "abcd", "ab#", "a-c#", "abcde", "abcdef", "AB", "é", "red", "1", "2", "]}", "/", "]", "x/",
    "AAAA", "AAA=", "AA==", "AAB=", "AA", "AAAAAAAA", "AAAAAA==", "AAAAAAA=", "====", "A A=",
    [], ["ab"], ["ab", "cd"], ["ab", "cd", "ef"], ["ab", "A"], [1], [1, "red"], [1, 1], ["red", "red"], [1, 1.0], [2],
    [{ "x": 1 }], [{ "x": 9 }], {}, { "x": 1 }, { "x": 1, "y": null }, { "x": 1, "y": "ab", "z": [] }, { "x": null },
    { "x": 1, "y": "A" }, { "x": 1, "more": true }, { "y": "ab" }, { "a": 1, "b": 2 }, { "a": 1, "b": 9 }
]"##;

/// An interface with a function for each type, with and without a default.
fn of_types() -> Arc<Definition> {
    let types: BTreeMap<String, Value> = serde_json::from_str(TYPES).expect("JSON");
    let function = |name: &String| {
        let of = |param: Value| json!({ "params": { "v": param } });
        let name = name.to_ascii_lowercase();
        let kind = types.keys().find(|kind| kind.to_ascii_lowercase() == name);
        [
            (name.clone(), of(json!({ "type": kind }))),
            (format!("{name}OrNull"), of(json!({ "type": kind, "default": null }))),
        ]
    };
    let funcs: BTreeMap<_, _> = types.keys().flat_map(function).collect();
    let file = json!({
        "iface": "test.types", "version": "1.0", "ftn3rev": "1.9", "types": types, "funcs": funcs,
    });
    let source = Source::texts([("test.types-1.0-iface.json", file.to_string())]);
    let id = "test.types:1.0".parse().expect("a name");
    Loader::new([source]).load(&id).expect("a definition")
}

/// Each parameter with each value, and whether the executor takes it.
fn verdicts(definition: &Definition) -> BTreeMap<String, Vec<(Value, bool)>> {
    let values: Vec<Value> = serde_json::from_str(VALUES).expect("JSON");
    let of_function = |name: &str| {
        let called = format!("test.types:1.0:{name}").parse().expect("a name");
        let function = definition.function(name).expect("it is declared");
        let verdict = |params: Value| {
            let mut checked = params.as_object().expect("an object").clone();
            (params, function.check_params(&called, &mut checked).is_ok())
        };
        let all = values.iter().map(|value| verdict(json!({ "v": value })));
        all.chain([verdict(json!({})), verdict(json!({ "v": 1, "w": 1 }))]).collect()
    };
    let names = definition.functions().map(|function| function.name());
    names.map(|name| (format!("testTypes.{name}.params"), of_function(name))).collect()
}

#[actix_rt::test]
async fn documents_are_valid_and_values_fit_schemas_if_the_executor_takes_them() {
    let all = definitions();
    assert!(all.len() > 15, "{all:?}");
    let data = Data::new();
    let shop = executor_demo::executor(&shop::config(&data)).expect("it can be built");
    let admin = Admin::new(SecurityLevel::PrivilegedOps);
    let observed = Executor::builder().service(admin.interface(), admin, Admin::define).build();
    let observed = observed.expect("it can be built");
    let types = of_types();
    let status = |code: &str| if code == "InvalidRequest" { 400 } else { 500 };
    let mut broken = described(&all, None);
    broken["paths"]["/ftn/futoin.ping/1.0/ping"]["get"]["parameters"][0]["in"] = "message".into();
    let verdicts = verdicts(&types);
    let count: usize = verdicts.values().map(Vec::len).sum();
    let taken = verdicts.values().flatten().filter(|(_, accepted)| *accepted).count();
    assert!(taken > 100 && count - taken > 1000, "{taken} of {count}");
    let asked = json!({
        "documents": {
            "admin": served(observed, true),
            "broken": broken,
            "conform": served(conform::executor(), false),
            "conform with problems": served(conform::executor(), true),
            "files": described(&all, None),
            "files with problems": described(&all, Some(&status)),
            "nothing": described(&[], None),
            "shop": served(shop, true),
            "types": described(&[types], None),
        },
        "values": { "document": "types", "schemas": verdicts },
    });
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("openapi.json");
    fs::write(&file, asked.to_string()).expect("the folder can be written");
    let seen = npm::summary("openapi.js", &[file.to_str().expect("text")]);
    let expected = json!({
        "valid": [
            "admin", "conform", "conform with problems", "files", "files with problems", "nothing", "shop", "types",
        ],
        "invalid": ["broken"],
        "values": count,
        "wrong": [],
    });
    assert_eq!(seen, expected);
}
