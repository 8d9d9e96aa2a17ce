//! A body captures what threads cannot share, and all requests share the body.

use std::cell::Cell;
use std::rc::Rc;

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

fn charge(steps: &Steps<Bank, ()>) -> Returns<String> {
    let seen = Rc::new(Cell::new(0));
    steps
        .run("pay", async move |cx, ()| {
            seen.set(seen.get() + 1);
            Ok(cx.pay(seen.get()).await?)
        })
        .returns()
}

fn main() {
    let _ = charge;
}
