//! `set_cancel` behind a step.

use asyncsteps_core::Template;

fn main() {
    let _ = Template::build(|asi| {
        asi.add(|_, ()| {}).set_cancel(|_| {});
    });
}
