//! A `;` is missing behind an async step.

use asyncsteps_core::Template;

fn main() {
    let _ = Template::build(|asi| {
        asi.add(|asi, ()| asi.run(async |()| Ok(())).named("inner"));
    });
}
