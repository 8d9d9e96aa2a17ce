//! The promise: clients that generators write from the OpenAPI document of a service order, read, and get errors with
//! their types, without a change by hand; and the service answers what the document says, and nothing else.
//!
//! It needs Node.js and npm; the generator of Python and schemathesis are packages of `tests/python`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use asyncsteps_support::shop::{self, Data, Shop};
use asyncsteps_support::{npm, python};
use executor_demo::Config;
use executor_demo::journal::JournalPlace;
use serde_json::{Value, json};

/// The shop with a user.
fn start(data: &Data, journal: Option<JournalPlace>) -> Shop {
    let config = shop::config(data);
    // of the program; clients wait for ten seconds at most
    let timeout = 5;
    Shop::serve(Config { user: vec!["ann:apples".to_owned()], journal, timeout, ..config })
}

/// An empty folder.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder of tests");
    folder
}

/// What a program with a generated client gets.
fn sold(sku: &str) -> Value {
    json!({
        "restocked": 10,
        "total": 90,
        "left": 7,
        "isOutOfStock": true,
        "refused": [409, sku],
        "tooLarge": [413, "InvalidRequest"],
        "anonymous": [401, "SecurityError"],
        "user": 7,
    })
}

#[track_caller]
fn run(command: &mut Command) -> Vec<u8> {
    let output = command.output().expect("it starts");
    let said = [&output.stdout[..], &output.stderr].concat();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&said));
    output.stdout
}

#[test]
fn generated_clients_in_typescript_sell() {
    let data = Data::new();
    let shop = start(&data, None);
    let folder = folder("generated-typescript");
    let args = [folder.to_str().expect("text"), &shop.address.to_string()];
    let seen = npm::summary("generated.js", &args);
    assert_eq!(seen, json!({ "fetch": sold("fetch"), "hey": sold("hey") }));
    let _ = shop.stop();
}

#[test]
fn a_generated_client_in_python_sells() {
    let Some(mut generator) = python::command("openapi-python-client") else { return };
    let Some(mut program) = python::command("python") else { return };
    let data = Data::new();
    let shop = start(&data, None);
    let (host, folder) = (shop.address.to_string(), folder("generated-python"));
    let config = format!("{}/generator.yaml", python::FOLDER);
    let url = format!("http://{host}/openapi.json");
    // a warning says that something of the document is left out
    generator.args(["generate", "--url", &url, "--output-path", "shop", "--meta", "none"]);
    run(generator.args(["--config", &config, "--fail-on-warning"]).current_dir(&folder));
    program.arg(format!("{}/sell.py", python::FOLDER)).arg(&host);
    let seen = run(program.env("PYTHONPATH", &folder).env("PYTHONDONTWRITEBYTECODE", "1"));
    assert_eq!(serde_json::from_slice::<Value>(&seen).expect("a summary"), sold("apple"));
    let _ = shop.stop();
}

#[test]
fn the_document_says_what_is_answered() {
    let Some(mut schemathesis) = python::command("schemathesis") else { return };
    let data = Data::new();
    let journal = data.file().with_extension("journal");
    let shop = start(&data, Some(JournalPlace::File(journal)));
    // the seed of a long run is another one each time; it is printed
    let (examples, seed): (_, &[_]) = match env::var_os("LONG_TESTS") {
        Some(_) => ("100", &[]),
        None => ("10", &["--seed", "1"]),
    };
    // the exceptions are in its configuration, by name and with the reason
    schemathesis.args(["--config-file", &format!("{}/schemathesis.toml", python::FOLDER), "run"]);
    schemathesis.env("SCHEMATHESIS_HOOKS", format!("{}/hooks.py", python::FOLDER));
    schemathesis.arg(format!("http://{}/openapi.json?all", shop.address));
    schemathesis.args(["--auth", "ann:apples", "--max-examples", examples, "--no-color"]);
    run(schemathesis.args(seed).current_dir(folder("schemathesis")));
    let _ = shop.stop();
    // whatever was ordered is in the books
    let _ = data.books();
}
