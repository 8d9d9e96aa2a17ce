//! Random numbers and the time of day where steps are defined, in a request that no host remembers.

#![cfg(feature = "schemars")]

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use asyncsteps_executor::channel::Channel;
use asyncsteps_executor::message::Request;
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Executor, Incoming, Returns, Service, Steps};
use serde_json::Map;

/// What was drawn.
#[derive(Clone, Default)]
struct Dice(Arc<Mutex<Vec<(u64, SystemTime)>>>);

impl Service for Dice {
    type Errors = ();
}

fn roll(asi: &mut Steps<Dice, ()>) -> Returns<()> {
    let (number, time) = (asi.random().number(), asi.now());
    assert_eq!(asi.random().number(), number, "each call gives the same numbers");
    asi.run("note", async move |cx, ()| {
        assert_ne!(cx.random().number(), number, "the step has others");
        cx.0.lock().expect("nothing panics").push((number, time));
        Ok(())
    })
    .into()
}

#[test]
fn each_request_has_its_own_numbers_and_the_time_of_the_system() {
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
        let [(one, first), (other, second)] = drawn[..] else { panic!("{drawn:?}") };
        assert_ne!(one, other);
        let within = Duration::from_secs(60);
        assert!(first <= second && first.elapsed().is_ok_and(|ago| ago < within), "{drawn:?}");
    });
}
