//! `retry` behind a callback, which can run once.

use asyncsteps_core::{Flow, Retry};

fn main() {
    let mut flow = Flow::new();
    flow.add(|_, ()| {}).retry(Retry::attempts(3));
}
