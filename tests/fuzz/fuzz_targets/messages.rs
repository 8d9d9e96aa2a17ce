//! Any bytes are a request or a refusal, in all codings; what was read is the same in each.
#![no_main]

use std::sync::{Arc, LazyLock};

use asyncsteps_futoin::iface::{Definition, Loader, Source};
use asyncsteps_futoin::message::{Coding, MediaType, Request, Response};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

static MAIN: LazyLock<Arc<Definition>> = LazyLock::new(|| {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../conform/ifaces");
    let id = "conform.main:1.2".parse().expect("a name");
    Loader::new([Source::folder(folder)]).load(&id).expect("it is a definition")
});

static BIN: LazyLock<Arc<Definition>> = LazyLock::new(|| {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../conform/ifaces");
    let id = "conform.bin:1.0".parse().expect("a name");
    Loader::new([Source::folder(folder)]).load(&id).expect("it is a definition")
});

fuzz_target!(|bytes: &[u8]| {
    if let Ok(header) = str::from_utf8(bytes) {
        let _ = MediaType::parse(Some(header));
    }
    let mut out = Vec::new();
    let request = match Request::parse(bytes) {
        Ok(request) => request,
        Err(refusal) => {
            let coding = refusal.coding();
            return refusal.into_response().write(coding, None, &mut out);
        }
    };
    let coding = request.coding();
    assert_eq!(coding, Coding::detect(bytes));
    let _ = request.signed_fields().base();
    let Ok(called) = request.function_name() else { return };
    // whatever interface was named, so that the fuzzer need not find one
    let names = [&MAIN, &BIN].into_iter().flat_map(|definition| definition.functions());
    for function in names.filter(|function| function.name() == called.func()) {
        let mut request = request.clone();
        let Ok(mut params) = request.take_params(&called, function) else { continue };
        if function.check_params(&called, &mut params).is_ok() {
            let mut again = params.clone();
            function.check_params(&called, &mut again).expect("checked parameters are in order");
            assert_eq!(params, again, "a checked value is in its normal form");
        }
        let answer = Response::success(Value::Object(params)).with_rid(request.rid());
        for coding in [Coding::Json, Coding::MsgPack, Coding::Cbor] {
            out.clear();
            answer.write(coding, Some(function), &mut out);
            assert_eq!(Coding::detect(&out), coding);
            let _ = answer.signed_fields(coding, Some(function)).base();
        }
    }
    let _ = request.check_fields();
});
