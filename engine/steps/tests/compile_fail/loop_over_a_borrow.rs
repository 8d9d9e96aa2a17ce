//! A loop over a borrowed collection.

use asyncsteps_core::Template;

fn main() {
    let _ = Template::build(|asi| {
        asi.add(|asi, ()| {
            let items = vec![1, 2];
            asi.for_each(&items, |_, _, _| {});
        });
    });
}
