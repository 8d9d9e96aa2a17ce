//! A server with `asyncsteps.jobs:1.0`, as the commands call it.

use std::time::Duration;

use anyhow::{Context as _, bail};
use asyncsteps::codes;
use asyncsteps::fabric::http::{Config, HttpFabric, Remote};
use asyncsteps::fabric::{Call, Fabric};
use asyncsteps::iface::IfaceVer;
use jiff::Timestamp;
use serde_json::{Map, Value};

/// The interface of durable requests.
const JOBS: &str = "asyncsteps.jobs:1.0";

/// A server with `asyncsteps.jobs:1.0`.
pub(crate) struct JobsServer {
    fabric: HttpFabric,
    patience: Duration,
}

impl JobsServer {
    pub(crate) fn new(url: &str, patience: Duration) -> anyhow::Result<Self> {
        let fabric = HttpFabric::new(Config::new())?;
        let interface: IfaceVer = JOBS.parse()?;
        fabric.register(interface, Remote::new(url))?;
        Ok(Self { fabric, patience })
    }

    pub(crate) async fn call(&self, function: &str, params: Value) -> anyhow::Result<Value> {
        let call = Call::new(&format!("{JOBS}:{function}"), params)?.within(self.patience);
        match self.fabric.call(call).await {
            Ok(response) => Ok(response.into_value()),
            Err(error) if error.code() == codes::UNKNOWN_INTERFACE => {
                bail!("the server has no durable requests: start it with --journal")
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Parameters on the command line.
pub(crate) fn object(params: &str) -> anyhow::Result<Map<String, Value>> {
    serde_json::from_str(params)
        .with_context(|| format!("the parameters are no JSON object: {params}"))
}

/// A time of a server, in milliseconds since 1970.
#[expect(clippy::cast_possible_truncation, reason = "a time saturates, and is none then")]
pub(crate) fn time(millis: f64) -> Option<Timestamp> {
    Timestamp::from_millisecond(millis as i64).ok()
}
