//! The promise: a durable function that runs without a runtime says how it is tested.

use asyncsteps_core::sim;
use asyncsteps_durable::Durable;
use asyncsteps_executor::security::SecurityLevel;
use asyncsteps_executor::test::TestRequest;
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Executor, Returns, Steps};
use asyncsteps_journal::memory::Memory;

fn work(steps: &Steps<(), ()>) -> Returns<String> {
    steps.run("write", async |_, ()| Ok("done".to_owned())).recorded().returns()
}

#[test]
fn a_durable_function_without_a_runtime_says_how_it_is_tested() {
    let durable = Durable::new(Memory::default());
    let interface = Interface::new("test.work:1.0".parse().expect("a name"));
    let builder = Executor::builder().service(interface, (), |functions| {
        durable.on(functions, "work", work);
    });
    let executor = builder.build().expect("it is complete");
    sim::check([1], |sim| {
        let request = TestRequest::new("test.work:1.0:work").user("ann", SecurityLevel::SafeOps);
        let started = sim.start(request.flow(&executor));
        sim.run();
        let answer =
            started.take_outcome().expect("it is over").into_result::<(serde_json::Value,)>();
        let error = answer.expect_err("it needs an arbiter");
        let first: &dyn std::error::Error = &error;
        let causes = std::iter::successors(Some(first), |error| error.source());
        let causes: Vec<_> = causes.map(ToString::to_string).collect();
        let told = "host the function with `Functions::on`";
        assert!(causes.iter().any(|cause| cause.contains(told)), "{causes:?}");
    });
}
