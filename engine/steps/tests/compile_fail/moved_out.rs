//! A step of a template gives its capture away.

use asyncsteps::Template;

fn main() {
    let _ = Template::build(|asi| {
        let name = String::from("ann");
        asi.add(move |asi, ()| asi.success(name));
    });
}
