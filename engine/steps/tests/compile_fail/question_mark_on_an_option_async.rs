//! `?` on an option in an async body.

use asyncsteps_core::Template;

fn main() {
    let _ = Template::build(|asi| {
        asi.run(async |()| {
            let found: Option<i32> = None;
            Ok(found?)
        });
    });
}
