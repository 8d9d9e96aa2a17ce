//! A handler that is an async function returns the result of a call as it is.

use asyncsteps_core::{BodyResult, Code};
use asyncsteps_executor::{Cx, Service};

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

async fn charge(cx: &Cx<Bank, ()>) -> BodyResult<String> {
    cx.pay(1).await
}

fn main() {
    let _ = charge;
}
