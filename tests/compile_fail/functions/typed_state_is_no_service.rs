//! The state of a function is no service.

use asyncsteps_executor::{Returns, Steps};

struct Bank;

fn charge(asi: &mut Steps<Bank, ()>) -> Returns<i32> {
    asi.run("pay", async |_, ()| Ok(1)).into()
}

fn main() {
    let _ = charge;
}
