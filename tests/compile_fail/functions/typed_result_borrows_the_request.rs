//! A body returns what it borrows from the request.

use asyncsteps_executor::{Returns, Service, Steps};

struct Bank;

impl Service for Bank {
    type Errors = ();
}

impl Bank {
    async fn pay(&self, _: i64) -> Result<String, std::fmt::Error> {
        Ok(String::new())
    }
}

struct Charge {
    customer: String,
    amounts: Vec<i64>,
}

fn charge(steps: &Steps<Bank, Charge>) -> Returns<usize> {
    steps
        .run("who", async |cx, ()| Ok(&cx.params.customer))
        .then("length", async |_, who| Ok(who.len()))
        .returns()
}

fn main() {
    let _ = charge;
}
