//! A callback where an async closure is meant.

use asyncsteps_core::Template;

fn main() {
    let _ = Template::build(|asi| {
        asi.run(|asi, ()| asi.success(1));
    });
}
