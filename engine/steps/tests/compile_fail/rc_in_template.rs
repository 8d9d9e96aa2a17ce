//! A template with a value of one thread.

use std::rc::Rc;

use asyncsteps_core::Template;

fn main() {
    let _ = Template::build(|asi| {
        let name = Rc::new(1);
        asi.run(async move |()| Ok(*name));
    });
}
