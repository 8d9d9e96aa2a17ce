//! A branch that takes an argument; nothing is passed to branches.

use asyncsteps_core::Template;

fn main() {
    let _ = Template::build(|asi| {
        asi.parallel(|p| {
            p.add(|_, _: i32| {});
        });
    });
}
