//! A loop over an iterator.

use asyncsteps_core::Template;

fn main() {
    let _ = Template::build(|asi| {
        asi.add(|asi, ()| {
            asi.for_each((0..5).map(|n| n * 2), |_, _, _| {});
        });
    });
}
