//! A future uses the interface of its step.

use asyncsteps_core::{Error, Template};
use asyncsteps_executor::RequestSteps;

fn main() {
    let _ = Template::build(|asi| {
        asi.add(|asi, ()| {
            asi.await_(async {
                let n: i64 = asi.param("n")?;
                Ok::<_, Error>(n)
            });
        });
    });
}
