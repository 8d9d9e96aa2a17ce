//! The state of a function is no service.

use asyncsteps_executor::{Returns, Steps};

struct Bank;

fn charge(steps: &Steps<Bank, ()>) -> Returns<i32> {
    steps.run("pay", async |_, ()| Ok(1)).returns()
}

fn main() {
    let _ = charge;
}
