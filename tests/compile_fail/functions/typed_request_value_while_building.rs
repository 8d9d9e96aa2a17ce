//! A value of the request is used where the steps are built.

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
    let amount = cx.params.amounts[0];
    steps.run("pay", async move |cx, ()| Ok(cx.pay(amount).await?)).returns()
}

fn main() {
    let _ = charge;
}
