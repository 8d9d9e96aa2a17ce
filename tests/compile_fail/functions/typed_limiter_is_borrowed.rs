//! A step borrows its limiter from the service.

use asyncsteps_actors::sync::Mutex;
use asyncsteps_executor::{Returns, Service, Steps};

struct Bank {
    calls: Mutex,
}

impl Service for Bank {
    type Errors = ();
}

impl Bank {
    async fn pay(&self, _: i64) -> Result<String, std::fmt::Error> {
        Ok(String::new())
    }
}

fn charge(steps: &Steps<Bank, ()>) -> Returns<String> {
    steps.run("pay", async |cx, ()| Ok(cx.pay(1).await?)).limited(|cx| &cx.calls).returns()
}

fn main() {
    let _ = charge;
}
