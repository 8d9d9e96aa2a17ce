//! `retry` behind a callback, which can run once.

use asyncsteps::{Flow, Retry};

fn main() {
    let mut flow = Flow::new();
    flow.add(|_, ()| {}).retry(Retry::attempts(3));
}
