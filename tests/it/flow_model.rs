//! Random programs run through the engine and through a model of FTN12: they must tell the same
//! story, every event at its time, the outcome and the state.
//!
//! A second test has flows and branches wait for each other's locks, in simulations: the order in
//! which they get them differs, the result does not.
//!
//! The model (`model.rs`) has nothing in common with the engine: it is a recursive interpreter, in
//! which a step is a call and time a variable. `FLOW_MODEL_PROGRAMS=N` runs so many programs
//! instead of 2,000. A program that failed is shrunk, and its seed is kept in
//! `flow_model/*.txt`, which is run first from then on.

use std::collections::BTreeMap;
use std::env;
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread;

use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence, TestCaseError, TestRunner};

mod contended;
mod engine;
mod generate;
mod model;
mod program;
mod steps;
mod strand;
mod things;

use program::{Program, Story};

/// How many programs run in CI: a few seconds.
const PROGRAMS: u32 = 2000;

fn programs() -> u32 {
    let Ok(text) = env::var("FLOW_MODEL_PROGRAMS") else { return PROGRAMS };
    text.parse().expect("FLOW_MODEL_PROGRAMS is a number")
}

/// How many programs had what: one that has nothing to tell finds nothing.
#[derive(Default)]
struct Tally(Mutex<BTreeMap<&'static str, u32>>);

/// What there is in stories: how lines begin, and what it means.
const EVENTS: [(&str, &str); 7] = [
    (">", "steps"),
    ("@", "iterations"),
    ("!", "error handlers"),
    ("x", "cancel handlers"),
    ("-", "dropped values"),
    ("~", "dropped futures"),
    ("+", "shielded bodies"),
];

/// How stories end.
const ENDINGS: [&str; 5] = ["success", "cancelled", "InternalError", "Timeout", "E"];

/// Of how many programs one has each of these, at least.
const ONE_IN: u32 = 40;

impl Tally {
    fn add(&self, story: &Story) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (mark, meaning) in EVENTS {
            let has = story.events.iter().any(|(_, event)| event.starts_with(mark));
            *counts.entry(meaning).or_default() += u32::from(has);
        }
        let ending = ENDINGS.into_iter().find(|ending| story.ending.starts_with(ending));
        *counts.entry(ending.expect("one of them")).or_default() += 1;
    }

    fn check(&self, programs: u32) {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let has_all = counts.len() == EVENTS.len() + ENDINGS.len();
        let enough = counts.values().all(|count| count * ONE_IN >= programs);
        assert!(has_all && enough, "of {programs} programs too few had some of {counts:?}");
    }
}

/// Runs a program on both sides.
fn check(program: &Program, tally: &Tally) -> Result<(), TestCaseError> {
    let expected = model::run(program);
    let given = engine::run(program);
    if given == expected {
        tally.add(&given);
        return Ok(());
    }
    let same = given.events.iter().zip(&expected.events).take_while(|(a, b)| a == b).count();
    Err(TestCaseError::fail(format!(
        "after {same} equal events the engine tells\n{:?}\n{} at {}, counts {:?}\n\
         and the model\n{:?}\n{} at {}, counts {:?}",
        &given.events[same..],
        given.ending,
        given.ended_at,
        given.counts,
        &expected.events[same..],
        expected.ending,
        expected.ended_at,
        expected.counts,
    )))
}

/// The generator builds and drops programs recursively, in large frames without optimisation.
const STACK: usize = 64 << 20;

#[test]
fn the_engine_and_the_model_tell_the_same_story() {
    let tally = Tally::default();
    run(generate::program, "tests/it/flow_model/regressions.txt", |program| {
        check(&program, &tally)
    });
    tally.check(programs());
}

#[test]
fn locks_give_the_same_result_in_any_order() {
    run(contended::crowd, "tests/it/flow_model/contended.txt", |crowd| {
        prop_assert_eq!(contended::simulated(&crowd), contended::expected(&crowd));
        Ok(())
    });
}

/// Runs a check for so many programs as are asked for.
fn run<S: Strategy>(
    strategy: impl FnOnce() -> S + Send,
    regressions: &'static str,
    check: impl Fn(S::Value) -> Result<(), TestCaseError> + Send,
) {
    let config = Config {
        cases: programs(),
        max_shrink_iters: 50_000,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(regressions))),
        ..Config::default()
    };
    let run = move || {
        let failed = TestRunner::new(config).run(&strategy(), check).err();
        failed.map(|failure| failure.to_string())
    };
    let failure = thread::scope(|scope| {
        let runs = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, run);
        runs.expect("a thread").join()
    });
    if let Some(failure) = failure.unwrap_or_else(|payload| resume_unwind(payload)) {
        panic!("{failure}");
    }
}
