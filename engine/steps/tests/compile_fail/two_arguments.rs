//! Two arguments that are not a tuple.

use asyncsteps_core::Template;

fn main() {
    let _ = Template::build(|asi| {
        asi.add(|asi, a: i32, b: i32| asi.success(a + b));
    });
}
