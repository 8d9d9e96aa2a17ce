//! A step of an error handler keeps the error that the handler borrows.

use asyncsteps_core::Template;

fn main() {
    let _ = Template::build(|asi| {
        asi.add(|_, ()| {}).on_error(|asi, error| {
            asi.add(move |_, ()| println!("{error}"));
        });
    });
}
