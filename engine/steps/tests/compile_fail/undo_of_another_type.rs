//! `undo` takes another type than the body gives.

use asyncsteps_core::{Template, Undo};

fn main() {
    let _ = Template::build(|asi| {
        asi.run(async |()| Ok(7)).undo(async |_: Undo<&String>| Ok(()));
    });
}
