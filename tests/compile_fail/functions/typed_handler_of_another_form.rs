//! A function is given to the executor that is no handler.

use asyncsteps_executor::{Functions, Service};

struct Bank;

impl Service for Bank {
    type Errors = ();
}

impl Bank {
    async fn pay(&self, _: i64) -> Result<String, std::fmt::Error> {
        Ok(String::new())
    }
}

fn charge(amount: i64) -> String {
    amount.to_string()
}

fn define(functions: &mut Functions<Bank>) {
    functions.on("charge", charge);
}

fn main() {
    let _ = define;
}
