//! The steps end early by a value that is no `Option`.

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
        .run("known", async |cx, ()| Ok(cx.pay(1).await?))
        .unless_some()
        .then("pay", async |cx, ()| Ok(cx.pay(1).await?))
        .returns()
}

fn main() {
    let _ = charge;
}
