//! A callback returns a result with an error of its own.

use asyncsteps_core::Template;

#[derive(Debug)]
struct BankError;

impl std::fmt::Display for BankError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the bank is down")
    }
}

impl std::error::Error for BankError {}

fn main() {
    let _ = Template::build(|asi| {
        asi.add(|_, ()| -> Result<(), BankError> { Err(BankError) });
    });
}
