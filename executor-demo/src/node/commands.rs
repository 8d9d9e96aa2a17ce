//! The commands that look at nodes and call them.

use std::fmt::{self, Write as _};
use std::num::NonZeroUsize;
use std::time::Duration;

use anyhow::{Context as _, bail};
use asyncsteps_fabric::nats::NatsFabric;
use asyncsteps_fabric::{Call, Fabric, NodeId, NodeInfo};
use clap::{ArgGroup, Args};
use serde_json::Value;

use super::options::NatsOptions;
use crate::load::{Answer, Client, Target};

/// Call a function and print its result.
#[derive(Clone, Debug, Args)]
#[command(group(ArgGroup::new("where").required(true).args(["nats", "url"])))]
pub struct CallOptions {
    #[command(flatten)]
    nats: NatsOptions,

    /// The end point of a server: http://127.0.0.1:8080/ftn/, or ws:// for WebSocket.
    #[arg(long, value_name = "URL")]
    url: Option<String>,

    /// The one node to call; any that serves the function unless given.
    #[arg(long, value_name = "NAME", requires = "nats")]
    node: Option<NodeId>,

    /// Seconds that the answer may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    timeout: u32,

    /// The function, with interface and version: demo.shop:1.0:stock.
    function: String,

    /// The parameters, as JSON.
    #[arg(default_value = "{}")]
    params: String,
}

/// Print the nodes, what they serve, and how many calls each has.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("nats", |nats| nats.required(true)))]
pub struct NodesOptions {
    #[command(flatten)]
    nats: NatsOptions,
}

/// Have a node finish what it does and end, and wait until it has.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("nats", |nats| nats.required(true)))]
pub struct DrainOptions {
    #[command(flatten)]
    nats: NatsOptions,

    /// The name of the node.
    node: NodeId,
}

/// Nodes as a table.
struct Table<'a>(&'a [NodeInfo]);

impl CallOptions {
    /// Makes the call; gives its result as JSON.
    ///
    /// # Errors
    /// If it cannot be made, or the answer is an error.
    pub async fn run(&self) -> anyhow::Result<String> {
        let params: Value = serde_json::from_str(&self.params)
            .with_context(|| format!("the parameters are no JSON: {}", self.params))?;
        let time_limit = Duration::from_secs(self.timeout.into());
        let result = match &self.url {
            Some(url) => call_server(&url.parse()?, &self.function, &params, time_limit).await?,
            None => {
                let call = Call::new(&self.function, params)?.within(time_limit);
                let call = match &self.node {
                    Some(node) => call.on_node(node.clone()),
                    None => call,
                };
                join(&self.nats).await?.call(call).await?.result
            }
        };
        Ok(result.to_string())
    }
}

impl NodesOptions {
    /// Asks the nodes; gives a table of them.
    ///
    /// # Errors
    /// If they cannot be asked.
    pub async fn run(&self) -> anyhow::Result<String> {
        let nodes = join(&self.nats).await?.nodes().await?;
        Ok(Table(&nodes).to_string())
    }
}

impl DrainOptions {
    /// Tells the node to drain, and waits until it serves nothing more.
    ///
    /// # Errors
    /// If there is no such node, or it takes no orders.
    pub async fn run(&self) -> anyhow::Result<String> {
        let fabric = join(&self.nats).await?;
        fabric.order_drain(&self.node).await?;
        // each round takes as long as nodes have to answer
        while fabric.nodes().await?.iter().any(|it| it.node == self.node.as_str()) {}
        Ok(format!("{} has drained", self.node))
    }
}

async fn join(nats: &NatsOptions) -> anyhow::Result<NatsFabric> {
    nats.join(None).await?.context("--nats says which server connects the nodes")
}

async fn call_server(
    target: &Target,
    function: &str,
    params: &Value,
    time_limit: Duration,
) -> anyhow::Result<Value> {
    let client = Client::connect(target, NonZeroUsize::MIN, time_limit).await?;
    match client.call(function, params).await {
        Answer::Result(result) => Ok(result),
        Answer::Error(code) => bail!("{code}"),
        Answer::None(why) => bail!("no answer: {why}"),
    }
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|it| it.node.len());
        let width = names.max().unwrap_or_default().max("NODE".len());
        write!(f, "{:width$}  IN FLIGHT  STATE     INTERFACES", "NODE")?;
        for NodeInfo { node, interfaces, in_flight, is_draining, .. } in self.0 {
            let state = if *is_draining { "draining" } else { "serving" };
            f.write_char('\n')?;
            write!(f, "{node:width$}  {in_flight:9}  {state:8}  {}", interfaces.join(" "))?;
        }
        Ok(())
    }
}
