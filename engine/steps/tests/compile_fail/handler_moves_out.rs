//! An error handler of a template gives its capture away.

use asyncsteps_core::Template;

fn main() {
    let _ = Template::build(|asi| {
        let who = String::new();
        asi.add(|_, ()| {}).on_error(move |asi, _| asi.error("Lost", who));
    });
}
