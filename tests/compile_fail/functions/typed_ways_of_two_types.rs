//! The ways of a choice return two types.

use asyncsteps_executor::{Either, Returns, Service, Steps};

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
        .run("how", async |_, ()| Ok(Either::<(), i64>::B(7)))
        .either(
            "pay",
            |gift| gift.run("gift", async |_, ()| Ok(0)).returns(),
            |card| card.run("card", async |cx, amount| Ok(cx.pay(amount).await?)).returns(),
        )
        .returns()
}

fn main() {
    let _ = charge;
}
