//! `undo` of a body whose result cannot be cloned.

use asyncsteps_core::{Arg, Template, Undo};

struct Order;

impl Arg for Order {}

fn main() {
    let _ = Template::build(|asi| {
        asi.run(async |()| Ok(Order)).undo(async |_: Undo<&Order>| Ok(()));
    });
}
