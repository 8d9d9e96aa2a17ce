//! A step is undone whose result cannot be cloned.

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

struct Receipt;

fn charge(asi: &mut Steps<Bank, ()>) -> Returns<Receipt> {
    asi.run("pay", async |_, ()| Ok(Receipt)).undo(async |_, _| Ok(())).into()
}

fn main() {
    let _ = charge;
}
