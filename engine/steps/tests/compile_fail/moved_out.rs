//! A step of a template gives its capture away.

use asyncsteps_core::Template;

fn main() {
    let _ = Template::build(|asi| {
        let name = String::from("ann");
        asi.add(move |asi, ()| asi.success(name));
    });
}
