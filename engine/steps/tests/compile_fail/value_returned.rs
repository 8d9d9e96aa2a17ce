//! A callback returns a value.

use asyncsteps_core::Template;

fn main() {
    let _ = Template::build(|asi| {
        asi.add(|_, ()| 5);
    });
}
