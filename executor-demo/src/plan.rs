//! The command that prints what the requests of a function go through.

use anyhow::Context as _;
use asyncsteps::Executor;
use clap::{Args, Parser as _};

use crate::config::Config;
use crate::server::executor;

/// Print the plan of a function: the steps of its requests, with their options.
#[derive(Clone, Debug, Args)]
pub struct PlanOptions {
    /// The function, with interface and version: demo.shop:1.0:order. Without one all functions are listed.
    function: Option<String>,

    /// Print a flowchart in the language of Mermaid.
    #[arg(long, requires = "function")]
    mermaid: bool,
}

impl PlanOptions {
    /// Reads the plans of the functions that this program hosts; returns the text to print.
    ///
    /// # Errors
    /// If there is no such function.
    ///
    /// # Panics
    /// Outside of an actix arbiter.
    pub fn run(&self) -> anyhow::Result<String> {
        let plans = hosted()?.plans();
        let Some(function) = &self.function else {
            // the first line names the function
            let heads =
                plans.iter().filter_map(|plan| Some(plan.to_text().lines().next()?.to_owned()));
            return Ok(heads.collect::<Vec<_>>().join("\n"));
        };
        let found = plans.iter().find(|plan| plan.function == *function);
        let plan = found.with_context(|| {
            format!("there is no function {function}; without a name, `plan` lists all functions")
        })?;
        Ok(if self.mermaid { plan.to_mermaid() } else { plan.to_text() })
    }
}

/// The functions as the program hosts them, without their data.
fn hosted() -> anyhow::Result<Executor> {
    let config = Config::try_parse_from(["executor-demo", "--data", ":memory:"])?;
    executor(&Config { otlp: None, console_token: None, ..config })
}
