//! A future whose error has no type.

use asyncsteps_core::Template;

async fn read() -> Result<String, std::io::Error> {
    Ok(String::new())
}

fn main() {
    let _ = Template::build(|asi| {
        asi.add(|asi, ()| {
            asi.await_(async { Ok(read().await?) });
        });
    });
}
