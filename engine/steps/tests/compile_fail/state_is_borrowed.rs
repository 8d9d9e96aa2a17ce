//! A step keeps a borrow of the state.

use asyncsteps_core::Template;

fn main() {
    let _ = Template::build(|asi| {
        asi.add(|asi, ()| {
            let names = asi.state().get::<Vec<String>>("names");
            asi.add(move |_, ()| println!("{names:?}"));
        });
    });
}
