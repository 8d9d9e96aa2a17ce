//! The hosted interfaces, as a page and as JSON.

use http::HeaderValue;
use http::header::VARY;
use serde_json::Value;

use super::super::answer::{self, Answer};
use asyncsteps_executor::{Catalog, Executor, FunctionInfo, ParameterInfo};

/// A page for clients that accept one, JSON for all others.
pub(super) fn answer(executor: &Executor, accept: &str) -> Answer {
    let listing = executor.catalog();
    let mut answer = if accept.contains("text/html") {
        answer::with_type("text/html; charset=utf-8", page(&listing))
    } else {
        // it has nothing that JSON has not
        let listing = serde_json::to_vec(&listing).unwrap_or_default();
        answer::with_type("application/json", listing)
    };
    answer.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    answer
}

fn page(listing: &Catalog) -> String {
    let mut page = String::from(
        "<!DOCTYPE html><html lang=en><meta charset=utf-8><title>Interfaces</title>\
         <style>body{font:1em sans-serif;margin:2em}dd{margin-bottom:.5em}</style>\
         <h1>Interfaces</h1>",
    );
    for interface in &listing.interfaces {
        let (name, version) = (escaped(&interface.iface), escaped(&interface.version));
        let requires = escaped(&interface.requires.join(", "));
        page.push_str(&format!("<h2>{name}:{version}</h2><p>{requires}</p><dl>"));
        for function in &interface.functions {
            let (name, facts) = (escaped(&function.name), facts(function));
            let params: Vec<String> = function.params.iter().map(param).collect();
            let params = escaped(&params.join(", "));
            let result = function.result.as_ref().map(kind).unwrap_or_default();
            let result = escaped(&result);
            page.push_str(&format!("<dt><b>{name}</b>({params}) {result}</dt><dd>{facts}</dd>"));
        }
        for (name, constraints) in &interface.types {
            let (name, constraints) = (escaped(name), escaped(&constraints.to_string()));
            page.push_str(&format!("<dt><i>{name}</i></dt><dd>{constraints}</dd>"));
        }
        page.push_str("</dl>");
    }
    page
}

fn param(param: &ParameterInfo) -> String {
    let ParameterInfo { name, type_name, default, .. } = param;
    let default = default.as_ref().map(|default| format!(" = {default}"));
    format!("{name}: {}{}", kind(type_name), default.unwrap_or_default())
}

/// A type as text: its name alone, or JSON.
fn kind(kind: &Value) -> String {
    kind.as_str().map_or_else(|| kind.to_string(), str::to_owned)
}

/// The special properties of a function.
fn facts(function: &FunctionInfo) -> String {
    let flags = [
        (function.result.is_none() && !function.rawresult, "no result"),
        (function.rawupload, "raw upload"),
        (function.rawresult, "raw result"),
        (function.heavy, "heavy"),
        (!function.implemented, "not implemented"),
    ];
    let flags = flags.into_iter().filter_map(|(is_so, text)| is_so.then_some(text));
    escaped(&flags.chain(function.seclvl.as_deref()).collect::<Vec<_>>().join(", "))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
