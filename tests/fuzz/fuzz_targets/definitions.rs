//! A definition is accepted or refused, whatever it says; its types check any value in bounded time.
#![no_main]

use asyncsteps_futoin::iface::{IfaceVer, Loader, Source, Version};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|text: String| {
    let Ok(id) = IfaceVer::new("a.b", Version::new(1, 0)) else { return };
    let files = [("a.b-1.0-iface.json", text.clone())];
    let loaded = Loader::new([Source::texts(files), Source::builtin()]).load(&id);
    let Ok(definition) = loaded else { return };
    let values = [Value::from(text.as_str()), Value::from("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!")];
    for param in definition.functions().flat_map(|function| function.params()) {
        for value in &values {
            let _ = param.accepts(value);
        }
        if let Some(default) = param.default().filter(|default| !default.is_null()) {
            assert!(param.accepts(default), "a default is of its type");
        }
    }
});
