//! `code` in a future with an error of its own.

use asyncsteps_core::{ErrorExt, Template};

async fn read() -> Result<String, std::io::Error> {
    Ok(String::new())
}

fn main() {
    let _ = Template::build(|asi| {
        asi.add(|asi, ()| {
            asi.await_(async {
                let text = read().await.code("NoFile")?;
                Ok::<_, std::io::Error>(text)
            });
        });
    });
}
