//! The state of a function is no service.

use asyncsteps_executor::{Gives, Steps};

struct Bank;

fn charge(asi: &mut Steps<Bank, ()>) -> Gives<i32> {
    asi.run("pay", async |_, ()| Ok(1)).into()
}

fn main() {
    let _ = charge;
}
