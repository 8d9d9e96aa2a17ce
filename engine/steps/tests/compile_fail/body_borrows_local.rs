//! An async body borrows an argument of the step around it.

use asyncsteps::Template;

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
