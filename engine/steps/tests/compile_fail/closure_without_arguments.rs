//! A step whose closure does not take the result of the step before.

use asyncsteps_core::Template;

fn main() {
    let _ = Template::build(|asi| {
        asi.add(|asi| asi.success(1));
    });
}
