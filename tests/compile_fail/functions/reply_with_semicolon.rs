//! A callback uses `?` and drops the result of `reply`.

use asyncsteps_core::Template;
use asyncsteps_executor::RequestSteps;

fn main() {
    let _ = Template::build(|asi| {
        asi.add(|asi, ()| {
            let n: i64 = asi.param("n")?;
            asi.reply(n);
        });
    });
}
