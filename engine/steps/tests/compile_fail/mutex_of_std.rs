//! A mutex of the standard library.

use asyncsteps_core::Template;

fn main() {
    let _ = Template::build(|asi| {
        let stock = std::sync::Mutex::new(1);
        asi.sync(&stock, |_, ()| {});
    });
}
