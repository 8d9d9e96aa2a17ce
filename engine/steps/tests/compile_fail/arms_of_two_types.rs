//! A `match` whose arms differ.

use asyncsteps_core::Template;

fn main() {
    let _ = Template::build(|asi| {
        asi.add(|asi, n: i32| match n {
            0 => asi.error("Zero", ()),
            _ => {}
        });
    });
}
