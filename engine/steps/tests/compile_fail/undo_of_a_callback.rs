//! `undo` behind a callback, which has no typed result.

use asyncsteps_core::{Template, Undo};

fn main() {
    let _ = Template::build(|asi| {
        asi.add(|_, ()| {}).undo(async |_: Undo<&()>| Ok(()));
    });
}
