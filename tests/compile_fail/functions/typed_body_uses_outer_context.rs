//! A body uses the context of the steps instead of its own.

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
    async fn pay(&self) -> Result<i32, BankDown> {
        Ok(1)
    }
}

fn charge(asi: &mut Steps<Bank, ()>) -> Returns<i32> {
    let cx = asi.cx();
    asi.run("pay", async |_, ()| Ok(cx.pay().await?)).into()
}

fn main() {
    let _ = charge;
}
