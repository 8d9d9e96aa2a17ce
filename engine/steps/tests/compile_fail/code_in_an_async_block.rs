//! `code` in a future whose error type it does not give.

use asyncsteps_core::{ErrorExt, Template};

async fn read() -> Result<String, std::io::Error> {
    Ok(String::new())
}

fn main() {
    let _ = Template::build(|asi| {
        asi.add(|asi, ()| {
            asi.await_(async {
                let text = read().await.code("NoFile")?;
                Ok(text)
            });
        });
    });
}
