//! What a call of a function takes from the allocator.

use asyncsteps_counted_heap::measure;
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Executor, Returns, Steps};

/// Allocations of a call of a function of one step in the process, with those of its caller.
const MOST: u64 = 11;

const CALLS: u64 = 100;

fn answer(steps: &Steps<(), ()>) -> Returns<i32> {
    steps.run("answer", async |_, ()| Ok(42)).returns()
}

async fn calls(executor: &Executor) {
    for _ in 0..CALLS {
        let answer = executor.call_as_system::<i32>("acme.deep:1.0:answer", ()).await;
        assert_eq!(answer.expect("it ends well"), 42);
    }
}

#[test]
fn a_function_of_one_step_takes_no_more_from_the_allocator_than_it_did() {
    let interface = Interface::new("acme.deep:1.0".parse().expect("a name"));
    let builder =
        Executor::builder().service(interface, (), |functions| _ = functions.on("answer", answer));
    let executor = builder.build().expect("a right configuration");
    let arbiter = actix_rt::System::new();
    // the first ones make what later ones use again
    arbiter.block_on(calls(&executor));
    let taken = measure(|| arbiter.block_on(calls(&executor)));
    assert!(taken.count / CALLS <= MOST, "{} allocations a call", taken.count / CALLS);
}
