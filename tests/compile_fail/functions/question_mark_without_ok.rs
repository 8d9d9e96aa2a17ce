//! A callback uses `?` and does not return a result.

use asyncsteps_core::Template;
use asyncsteps_executor::RequestSteps;

fn main() {
    let _ = Template::build(|asi| {
        asi.add(|asi, ()| {
            let n: i64 = asi.param("n")?;
            asi.add(move |asi, ()| asi.reply(n));
        });
    });
}
