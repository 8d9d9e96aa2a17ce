//! The command that prints the OpenAPI document.

use clap::{Args, Parser as _};

use crate::config::Config;
use crate::docs;
use crate::server::{executor, service};

/// Print the OpenAPI document of the functions, for Swagger UI, validators and generators of clients.
#[derive(Clone, Debug, Args)]
#[expect(clippy::exhaustive_structs, reason = "options of a program, not of a library")]
pub struct OpenApiOptions {
    /// With messages, and the functions that only the program itself calls.
    #[arg(long)]
    pub all: bool,
}

impl OpenApiOptions {
    /// Describes the functions that this program hosts; returns the text to print.
    ///
    /// # Errors
    /// If an interface fails.
    ///
    /// # Panics
    /// Outside of an actix arbiter.
    pub fn run(&self) -> anyhow::Result<String> {
        let config = Config::try_parse_from(["executor-demo", "--data", ":memory:"])?;
        let config = Config { otlp: None, console_token: None, user: Vec::new(), ..config };
        let service = service(&executor(&config)?, &config, None);
        let openapi = docs::openapi(&service);
        let document = if self.all { openapi.document_of_all() } else { openapi.document() };
        Ok(format!("{document:#}"))
    }
}
