//! Items are borrowed from the request.

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

fn charge(steps: &Steps<Bank, Charge>) -> Returns<Vec<String>> {
    steps
        .each(
            "pay all",
            |cx, ()| cx.params.amounts.iter(),
            |item| item.run("pay", async |cx, amount| Ok(cx.pay(amount).await?)).returns(),
        )
        .returns()
}

fn main() {
    let _ = charge;
}
