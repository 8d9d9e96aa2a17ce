//! A step borrows a local value.

use asyncsteps_core::Template;

fn main() {
    let _ = Template::build(|asi| {
        let name = String::from("ann");
        asi.add(|_, ()| println!("{name}"));
    });
}
