//! The commands that look at nodes and call them.

use std::fmt::{self, Write as _};
use std::time::Duration;

use anyhow::Context as _;
use asyncsteps::fabric::http::{Config, HttpFabric, Remote};
use asyncsteps::fabric::{Call, Fabric, NodeId, NodeInfo};
use asyncsteps::iface::{FunctionName, IfaceVer};
use clap::{ArgGroup, Args};
use serde_json::Value;

use super::nats::{self, NatsFabric};
use super::options::NatsOptions;

/// Call a function and print its result.
#[derive(Clone, Debug, Args)]
#[command(group(ArgGroup::new("where").required(true).args(["nats", "url"])))]
pub struct CallOptions {
    #[command(flatten)]
    nats: NatsOptions,

    /// The end point of a server: http://127.0.0.1:8080/ftn/, ws:// for WebSocket, https:// and wss:// for
    /// both over TLS.
    #[arg(long, value_name = "URL")]
    url: Option<String>,

    /// The one node to call; any that serves the function by default.
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
struct NodeTable<'a>(&'a [NodeInfo]);

impl CallOptions {
    /// Makes the call; returns its result as JSON.
    ///
    /// # Errors
    /// If it cannot be made, or the answer is an error.
    pub async fn run(&self) -> anyhow::Result<String> {
        let params: Value = serde_json::from_str(&self.params)
            .with_context(|| format!("the parameters are no JSON: {}", self.params))?;
        let time_limit = Duration::from_secs(self.timeout.into());
        let call = Call::new(&self.function, params)?.within(time_limit);
        let call = match &self.node {
            Some(node) => call.on_node(node.clone()),
            None => call,
        };
        let fabric: Box<dyn Fabric> = match &self.url {
            Some(url) => Box::new(service(url, call.function())?),
            None => Box::new(join(&self.nats).await?),
        };
        let response = fabric.call(call).await?;
        Ok(response.into_value().to_string())
    }
}

impl NodesOptions {
    /// Asks the nodes; returns a table of them.
    ///
    /// # Errors
    /// If they cannot be asked.
    pub async fn run(&self) -> anyhow::Result<String> {
        let nodes = join(&self.nats).await?.nodes().await?;
        Ok(NodeTable(&nodes).to_string())
    }
}

impl DrainOptions {
    /// Orders the node to drain, and waits until it serves nothing more.
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

async fn join(options: &NatsOptions) -> anyhow::Result<NatsFabric> {
    nats::join(options, None).await?.context("--nats says which server connects the nodes")
}

/// A fabric with the one service that hosts a function.
fn service(url: &str, function: &FunctionName) -> anyhow::Result<HttpFabric> {
    let fabric = HttpFabric::new(Config::new())?;
    let interface = IfaceVer::new(function.iface(), function.version())?;
    fabric.register(interface, Remote::new(url))?;
    Ok(fabric)
}

impl fmt::Display for NodeTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|it| it.node.len());
        let width = names.max().unwrap_or_default().max("NODE".len());
        write!(f, "{:width$}  IN FLIGHT  STATE     INTERFACES", "NODE")?;
        for NodeInfo { node, interfaces, in_flight, is_draining, has_other_secret, .. } in self.0 {
            let state = if *is_draining { "draining" } else { "serving" };
            f.write_char('\n')?;
            write!(f, "{node:width$}  {in_flight:9}  {state:8}  {}", interfaces.join(" "))?;
            if *has_other_secret {
                f.write_str("  (it has another NODE_SECRET)")?;
            }
        }
        Ok(())
    }
}
