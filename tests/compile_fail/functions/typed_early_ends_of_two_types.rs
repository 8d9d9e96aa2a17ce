//! Steps end early with two types.

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
        .run("known", async |_, ()| Ok(Some(5)))
        .unless_some()
        .then("paid", async |_, ()| Ok(Some(String::new())))
        .unless_some()
        .then("pay", async |cx, ()| Ok(cx.pay(1).await?))
        .returns()
}

fn main() {
    let _ = charge;
}
