//! The mutex for one thread in a template, with `locked`.

use asyncsteps_core::Template;
use asyncsteps_core::sync::Mutex;

fn main() {
    let _ = Template::build(|asi| {
        let stock = Mutex::default();
        asi.run(async |()| Ok(())).locked(&stock);
    });
}
