//! An async closure where a callback is meant.

use asyncsteps_core::Template;

async fn read() -> Result<String, std::io::Error> {
    Ok(String::new())
}

fn main() {
    let _ = Template::build(|asi| {
        asi.add(async |_, ()| {
            let _ = read().await;
        });
    });
}
