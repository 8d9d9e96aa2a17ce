//! An async body returns the result of a call as it is.

use asyncsteps_core::Template;

#[derive(Debug)]
struct BankError;

impl std::fmt::Display for BankError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the bank is down")
    }
}

impl std::error::Error for BankError {}

async fn charge() -> Result<i32, BankError> {
    Ok(1)
}

fn main() {
    let _ = Template::build(|asi| {
        asi.run(async |()| charge().await);
    });
}
