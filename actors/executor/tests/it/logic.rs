//! The promise: the random numbers of a step belong to its key.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use asyncsteps_core::{BodyResult, Error, Retry};
use asyncsteps_executor::channel::Channel;
use asyncsteps_executor::message::Request;
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Cx, Executor, Incoming, Returns, Service, Steps};
use serde_json::Map;

/// What was drawn.
#[derive(Clone, Default)]
struct Dice(Arc<Mutex<Vec<u64>>>);

impl Service for Dice {
    type Errors = ();
}

async fn draw(cx: &Cx<Dice, ()>, (): ()) -> BodyResult<()> {
    let number = cx.random().number();
    assert_eq!(cx.random().number(), number, "each call returns the same numbers");
    cx.0.lock().expect("nothing panics").push(number);
    if cx.attempt() == 1 { Err(Error::new("Again").into()) } else { Ok(()) }
}

fn roll(steps: &Steps<Dice, ()>) -> Returns<()> {
    let again = || Retry::attempts(2).on_code("Again");
    steps.run("one", draw).retry(again()).then("other", draw).retry(again()).returns()
}

#[test]
fn all_attempts_of_a_step_have_numbers_that_no_other_step_or_request_has() {
    actix::System::new().block_on(async {
        let dice = Dice::default();
        let interface = Interface::new("test.dice:1.0".parse().expect("a name"));
        let executor = Executor::builder().service(interface, dice.clone(), |functions| {
            functions.on("roll", roll);
        });
        let executor = executor.build().expect("the interface is complete");
        for _ in 0..2 {
            let ann = User::new("ann", SecurityLevel::SafeOps);
            let request = Request::new("test.dice:1.0:roll", Map::new());
            let incoming = Incoming::new(request, Channel::local()).with_caller((&ann).into());
            executor.dispatch(incoming).await;
        }
        let drawn = dice.0.lock().expect("nothing panics").clone();
        let attempts: Vec<_> = drawn.chunks(2).collect();
        assert_eq!(attempts.len(), 4, "two steps of two requests: {drawn:?}");
        assert!(attempts.iter().all(|drawn| drawn[0] == drawn[1]), "{drawn:?}");
        assert_eq!(drawn.iter().collect::<BTreeSet<_>>().len(), 4, "{drawn:?}");
    });
}
