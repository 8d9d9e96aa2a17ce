//! A future borrows an argument of its step.

use asyncsteps_core::Template;

async fn read() -> Result<String, std::io::Error> {
    Ok(String::new())
}

fn main() {
    let _ = Template::build(|asi| {
        asi.add(|asi, name: String| {
            asi.await_(async {
                println!("{name}");
                read().await
            });
        });
    });
}
