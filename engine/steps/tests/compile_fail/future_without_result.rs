//! A future that gives no result.

use asyncsteps_core::Template;

fn main() {
    let _ = Template::build(|asi| {
        asi.add(|asi, ()| {
            asi.await_(async { 5 });
        });
    });
}
