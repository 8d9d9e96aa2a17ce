//! A step is tried again whose input cannot be cloned.

use asyncsteps_core::Retry;
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

struct Ticket;

fn charge(steps: &Steps<Bank, ()>) -> Returns<String> {
    steps
        .run("ticket", async |_, ()| Ok(Ticket))
        .then("pay", async |cx, _ticket| Ok(cx.pay(1).await?))
        .retry(Retry::attempts(3))
        .returns()
}

fn main() {
    let _ = charge;
}
