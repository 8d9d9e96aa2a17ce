//! The request decides which steps are built.

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
    if steps.cx().params.amounts.is_empty() {
        return steps.run("none", async |_, ()| Ok(String::new())).returns();
    }
    steps.run("pay", async |cx, ()| Ok(cx.pay(1).await?)).returns()
}

fn main() {
    let _ = charge;
}
