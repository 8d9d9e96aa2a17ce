//! A future that gives no result.

use asyncsteps::Template;

fn main() {
    let _ = Template::build(|asi| {
        asi.add(|asi, ()| {
            asi.await_(async { 5 });
        });
    });
}
