//! A definition is accepted or refused, whatever it says.
#![no_main]

use asyncsteps_actors::iface::{IfaceVer, Loader, Source, Version};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: String| {
    let Ok(id) = IfaceVer::new("a.b", Version::new(1, 0)) else { return };
    let files = [("a.b-1.0-iface.json", text)];
    let _ = Loader::new([Source::texts(files), Source::builtin()]).load(&id);
});
