//! Any path and query are a call, a refusal, or a path of another service.
#![no_main]

use std::sync::{Arc, LazyLock};

use asyncsteps_futoin::iface::{Definition, Loader, Source};
use asyncsteps_futoin::url::FunctionUrl;
use libfuzzer_sys::fuzz_target;

static MAIN: LazyLock<Arc<Definition>> = LazyLock::new(|| {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../conform/ifaces");
    let id = "conform.main:1.2".parse().expect("a name");
    Loader::new([Source::folder(folder)]).load(&id).expect("it is a definition")
});

fuzz_target!(|text: &str| {
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    let Some(Ok(url)) = FunctionUrl::parse(path, query) else { return };
    let called = url.function().clone();
    assert!(!called.iface().contains('/') && !called.func().contains('/'));
    let function = MAIN.function(called.func());
    let mut request = url.into_request(function);
    let _ = request.signed_fields().base();
    assert_eq!(request.function_name(), Ok(called.clone()));
    if let Some(function) = function {
        let mut params = request.take_params(&called, function).expect("a URL has parameters");
        let _ = function.check_params(&called, &mut params);
    }
});
