//! The branches are a list instead of a tuple.

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

fn charge(steps: &Steps<Bank, ()>) -> Returns<i32> {
    steps
        .join("both", |all| {
            vec![all.run("one", async |_, ()| Ok(1)), all.run("other", async |_, ()| Ok(2))]
        })
        .then("sum", async |_, all| Ok(all.len()))
        .returns()
}

fn main() {
    let _ = charge;
}
