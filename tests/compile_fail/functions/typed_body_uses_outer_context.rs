//! A body uses the context of another closure.

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
        .run("count", async |cx, ()| Ok(cx.attempt().into()))
        .then("pay", async |_, count| Ok(cx.pay(count).await?))
        .returns()
}

fn main() {
    let _ = charge;
}
