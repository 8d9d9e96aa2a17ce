//! A wrong type is written at the input of a body, where none is needed.

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

fn charge(steps: &Steps<Bank, Charge>) -> Returns<String> {
    steps
        .run("count", async |cx, ()| Ok(cx.params.amounts.len()))
        .then("pay", async |cx, count: i64| Ok(cx.pay(count).await?))
        .returns()
}

fn main() {
    let _ = charge;
}
