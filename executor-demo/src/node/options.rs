//! How a process of the demo reaches the others.

use std::path::PathBuf;

use asyncsteps::fabric::NodeId;
use clap::{Args, ValueEnum};

/// The server that connects the nodes, and what lets this one in.
#[derive(Clone, Debug, Default, Args)]
pub struct NatsOptions {
    /// The NATS server that connects the nodes: nats://127.0.0.1:4222, or tls:// for TLS; several of one
    /// cluster with commas between them.
    #[arg(long, value_name = "URL")]
    pub nats: Option<String>,

    /// The user of the NATS server.
    #[arg(long, value_name = "NAME", requires = "nats", requires = "nats_password")]
    pub nats_user: Option<String>,

    /// The password of the user. Better given by the environment, since other users of the machine see the
    /// arguments.
    #[arg(long, value_name = "PASSWORD", env = "NATS_PASSWORD", hide_env_values = true)]
    pub nats_password: Option<String>,

    /// The file with JWT and seed that nsc wrote, in place of a user.
    #[arg(long, value_name = "FILE", requires = "nats", conflicts_with = "nats_user")]
    pub nats_creds: Option<PathBuf>,

    /// A file with the token of the NATS server, in place of a user.
    #[arg(long, value_name = "FILE", requires = "nats", conflicts_with_all = ["nats_user", "nats_creds"])]
    pub nats_token_file: Option<PathBuf>,

    /// What the nodes of one service know: they act for the users of each other's requests, and the shop
    /// pays at the bank of another node. Without it, calls between nodes are anonymous. Better given by the
    /// environment.
    #[arg(long, value_name = "SECRET", env = "NODE_SECRET", hide_env_values = true)]
    pub node_secret: Option<String>,
}

/// The options of this process as a node.
#[derive(Clone, Debug, Default, Args)]
pub struct NodeOptions {
    /// The server, and what lets this node in.
    #[command(flatten)]
    pub nats: NatsOptions,

    /// The name of this node, as no other has it; a random one by default.
    #[arg(long, value_name = "NAME", requires = "nats")]
    pub node: Option<NodeId>,

    /// Host only this, and call the nodes that host the rest; everything by default.
    #[arg(long, value_enum, value_name = "WHAT", requires = "nats")]
    pub only: Option<Hosted>,
}

/// The functions that a node hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[expect(clippy::exhaustive_enums, reason = "an option of a program, not of a library")]
pub enum Hosted {
    /// The shop; the bank is on another node.
    Shop,
    /// The bank.
    Bank,
    /// Nothing but HTTP for the others.
    None,
}

impl NodeOptions {
    pub(crate) fn hosts_shop(&self) -> bool {
        matches!(self.only, None | Some(Hosted::Shop))
    }

    /// Whether this is only a front of other nodes, which needs no database.
    pub(crate) fn hosts_nothing(&self) -> bool {
        self.only == Some(Hosted::None)
    }

    pub(crate) fn hosts_bank(&self) -> bool {
        matches!(self.only, None | Some(Hosted::Bank))
    }
}
