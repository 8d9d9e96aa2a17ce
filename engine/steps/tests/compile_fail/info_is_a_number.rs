//! Information of an error that is no text.

use asyncsteps_core::Template;

fn main() {
    let _ = Template::build(|asi| {
        asi.add(|asi, ()| asi.error("Lost", 5));
    });
}
