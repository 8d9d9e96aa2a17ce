//! The last step returns what the function does not.

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
    steps
        .run("pay", async |cx, ()| Ok(cx.pay(1).await?))
        .then("length", async |_, tx| Ok(tx.len()))
        .returns()
}

fn main() {
    let _ = charge;
}
