//! `retry` of a body whose argument cannot be cloned.

use asyncsteps_core::{Arg, Retry, Template};

struct Order;

impl Arg for Order {}

fn main() {
    let _ = Template::build(|asi| {
        asi.run(async |_: Order| Ok(())).retry(Retry::attempts(3));
    });
}
