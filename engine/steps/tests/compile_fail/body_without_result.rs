//! An async body that gives no result.

use asyncsteps_core::Template;

fn main() {
    let _ = Template::build(|asi| {
        asi.run(async |()| 5);
    });
}
