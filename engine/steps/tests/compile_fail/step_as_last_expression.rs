//! A `;` is missing behind a step.

use asyncsteps_core::Template;

fn main() {
    let _ = Template::build(|asi| {
        asi.add(|asi, ()| asi.add(|_, ()| {}).named("inner"));
    });
}
