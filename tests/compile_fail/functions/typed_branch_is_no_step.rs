//! A branch is a body instead of a step.

use asyncsteps_executor::{Cx, Returns, Service, Steps};

struct Bank;

impl Service for Bank {
    type Errors = ();
}

impl Bank {
    async fn pay(&self, _: i64) -> Result<String, std::fmt::Error> {
        Ok(String::new())
    }
}

fn charge(steps: &Steps<Bank, ()>) -> Returns<i32> {
    steps
        .join("both", |all| {
            (all.run("one", async |_, ()| Ok(1)), async |_: &Cx<Bank, ()>, ()| Ok(2))
        })
        .then("sum", async |_, (one, other)| Ok(one + other))
        .returns()
}

fn main() {
    let _ = charge;
}
