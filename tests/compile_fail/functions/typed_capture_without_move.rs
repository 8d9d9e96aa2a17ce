//! A body borrows a value of the function that builds it.

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

fn charge(steps: &Steps<Bank, ()>) -> Returns<String> {
    let amount = 5;
    steps.run("pay", async |cx, ()| Ok(cx.pay(amount).await?)).returns()
}

fn main() {
    let _ = charge;
}
