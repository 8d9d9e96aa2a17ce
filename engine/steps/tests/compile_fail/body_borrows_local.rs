//! An async body borrows an argument of the step around it.

use asyncsteps_core::Template;

fn main() {
    let _ = Template::build(|asi| {
        asi.add(|asi, name: String| {
            asi.run(async |()| {
                println!("{name}");
                Ok(())
            });
        });
    });
}
