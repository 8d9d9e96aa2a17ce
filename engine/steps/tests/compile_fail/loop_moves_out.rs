//! An iteration gives a capture away.

use asyncsteps_core::Template;

fn main() {
    let _ = Template::build(|asi| {
        asi.add(|asi, who: String| {
            asi.make_loop(move |asi| {
                asi.add(move |_, ()| println!("{who}"));
            });
        });
    });
}
