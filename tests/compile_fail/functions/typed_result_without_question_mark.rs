//! A body returns `Ok` of a call without `?`.

use asyncsteps_core::Code;
use asyncsteps_executor::{Returns, Service, Steps};

#[derive(Debug, Code)]
struct BankDown;

impl std::fmt::Display for BankDown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the bank is down")
    }
}

impl std::error::Error for BankDown {}

struct Bank;

impl Service for Bank {
    type Errors = BankDown;
}

impl Bank {
    async fn pay(&self, _: i64) -> Result<String, BankDown> {
        Ok(String::new())
    }
}

fn charge(steps: &Steps<Bank, ()>) -> Returns<String> {
    steps.run("pay", async |cx, ()| Ok(cx.pay(1).await)).returns()
}

fn main() {
    let _ = charge;
}
