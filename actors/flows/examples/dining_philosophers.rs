//! Five philosophers, five forks, and each takes the left one first: a deadlock. The philosopher
//! whose wait closes the circle is told so, puts the fork back and tries again; so all of them eat.
//!
//! Run it with `cargo run -p asyncsteps-actors --example dining_philosophers`.

use std::time::Duration;

use asyncsteps_actors::flow::{FlowHandle, start_flow};
use asyncsteps_actors::sync::{Registry, deadlock};
use asyncsteps_core::{AsyncSteps, Flow, StepResult};

const NAMES: [&str; 5] = ["Aristotle", "Bacon", "Cicero", "Descartes", "Epicurus"];

/// Reaching for a fork, eating, and thinking take this long.
const MOMENT: Duration = Duration::from_millis(10);

/// Takes the left fork, then the right one, eats, and puts both back.
fn dine(asi: &mut AsyncSteps, table: &Registry, seat: usize) -> StepResult {
    let left = table.mutex("fork", NAMES[seat])?;
    let right = table.mutex("fork", NAMES[(seat + 1) % NAMES.len()])?;
    asi.sync(&left, move |asi, ()| {
        asi.sleep(MOMENT);
        asi.sync(&right, move |asi, ()| {
            say(seat, "eats");
            asi.sleep(MOMENT);
        });
    });
    Ok(())
}

/// A philosopher dines once, however many attempts that takes.
fn philosopher(table: &Registry, seat: usize) -> FlowHandle {
    let table = table.clone();
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        asi.make_loop(move |asi| {
            let table = table.clone();
            asi.add(move |asi, ()| dine(asi, &table, seat)).on_error(move |asi, error| {
                say(seat, error.info().unwrap_or("something else"));
                asi.sleep(MOMENT);
                asi.add(|asi, ()| asi.continue_loop(None));
            });
            asi.add(|asi, ()| asi.break_loop(None));
        });
    });
    start_flow(flow)
}

#[expect(clippy::print_stdout, reason = "an example tells what happens")]
fn say(seat: usize, what: &str) {
    println!("{}: {what}", NAMES[seat]);
}

#[actix::main]
#[expect(clippy::print_stdout, reason = "an example tells what happens")]
async fn main() -> Result<(), asyncsteps_core::Error> {
    let table = Registry::new();
    let philosophers = [0, 1, 2, 3, 4].map(|seat| philosopher(&table, seat));
    for philosopher in philosophers {
        philosopher.await?;
    }
    println!("All have eaten; deadlocks: {}.", deadlock::count());
    for deadlock in deadlock::last() {
        println!("A circle of {}:", deadlock.waits.len());
        deadlock.waits.iter().for_each(|wait| println!("- {wait}"));
    }
    Ok(())
}
