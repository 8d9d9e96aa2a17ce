//! Information of an error that is borrowed.

use asyncsteps_core::Template;

fn main() {
    let _ = Template::build(|asi| {
        asi.add(|asi, who: String| asi.error("Lost", who.as_str()));
    });
}
