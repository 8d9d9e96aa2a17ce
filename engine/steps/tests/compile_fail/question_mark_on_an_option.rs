//! `?` on an option.

use asyncsteps_core::Template;

fn main() {
    let _ = Template::build(|asi| {
        asi.add(|asi, ()| {
            let found: Option<i32> = None;
            asi.success(found?)
        });
    });
}
