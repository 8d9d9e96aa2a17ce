//! `set_timeout` behind a step.

use std::time::Duration;

use asyncsteps_core::Template;

fn main() {
    let _ = Template::build(|asi| {
        asi.add(|_, ()| {}).set_timeout(Duration::from_secs(1));
    });
}
