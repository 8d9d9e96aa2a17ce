//! A step is undone whose result cannot be cloned.

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

struct Receipt;

fn charge(steps: &Steps<Bank, ()>) -> Returns<Receipt> {
    steps.run("pay", async |_, ()| Ok(Receipt)).undo(async |_, _| Ok(())).returns()
}

fn main() {
    let _ = charge;
}
