//! The command that prints the OpenAPI document.

use clap::{Args, Parser as _};

use crate::config::Config;
use crate::docs;
use crate::server::{executor, service};

/// Print the OpenAPI document of the functions, for Swagger UI, validators and generators of clients.
#[derive(Clone, Debug, Args)]
#[expect(clippy::exhaustive_structs, reason = "it has no options")]
pub struct OpenApiOptions {}

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
        let config = Config { otlp: None, console_token: None, ..config };
        let service = service(&executor(&config)?, &config, None);
        Ok(format!("{:#}", docs::openapi(&service).document()))
    }
}
