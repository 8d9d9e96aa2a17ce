//! An argument without a type.

use asyncsteps_core::Template;

fn main() {
    let _ = Template::build(|asi| {
        asi.add(|asi, n| asi.success(n));
    });
}
