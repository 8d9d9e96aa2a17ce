//! A body that takes a type that is no argument.

use asyncsteps_core::Template;

struct Order;

fn main() {
    let _ = Template::build(|asi| {
        asi.run(async |_: Order| Ok(()));
    });
}
