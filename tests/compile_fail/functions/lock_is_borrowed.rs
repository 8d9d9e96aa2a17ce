//! A step borrows the lock of its template.

use asyncsteps_core::Template;
use asyncsteps_actors::sync::Mutex;

fn main() {
    let _ = Template::build(|asi| {
        let stock = Mutex::new(Default::default());
        asi.add(|asi, ()| {
            asi.sync(&stock, |_, ()| {});
        });
    });
}
