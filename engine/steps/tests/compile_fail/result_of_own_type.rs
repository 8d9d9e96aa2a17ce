//! A result of a type that is no argument.

use asyncsteps_core::Template;

struct Order;

fn main() {
    let _ = Template::build(|asi| {
        asi.add(|asi, ()| asi.success(Order));
    });
}
