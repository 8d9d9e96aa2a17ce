//! The nodes of a fabric, which are asked while a page shows them.

use std::sync::Arc;
use std::time::Duration;

use asyncsteps_actors::clock::Clock;
use asyncsteps_fabric::{Fabric, NodeInfo};
use bytes::Bytes;
use serde::Serialize;
use tokio::sync::Mutex;

use crate::bounds::{self, Bounded as _};

/// The time between two questions, over all pages: each is a message to all nodes.
const PERIOD: Duration = Duration::from_secs(1);

/// The nodes of a fabric.
pub(crate) struct Nodes {
    fabric: Arc<dyn Fabric>,
    clock: Clock,
    /// Locked while the nodes are asked, so that all pages wait for one answer.
    latest: Mutex<Option<(Duration, Bytes)>>,
}

/// The nodes for a page, or why they cannot be shown.
#[derive(Debug, Default, Serialize)]
struct NodesAnswer {
    nodes: Vec<NodeInfo>,
    all: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Nodes {
    pub(crate) fn new(fabric: Arc<dyn Fabric>) -> Self {
        Self { fabric, clock: Clock::start(), latest: Mutex::default() }
    }

    /// The nodes as JSON, as they were a period ago at the most. Dropping the future leaves the question
    /// to the next page.
    pub(crate) async fn ask(&self) -> Bytes {
        let mut latest = self.latest.lock().await;
        let now = self.clock.elapsed();
        match &*latest {
            Some((at, json)) if now < *at + PERIOD => json.clone(),
            _ => {
                let json = self.answer().await;
                latest.insert((self.clock.elapsed(), json)).1.clone()
            }
        }
    }

    async fn answer(&self) -> Bytes {
        let answer = match self.fabric.nodes().await {
            Ok(mut nodes) => {
                let all = nodes.len();
                nodes.truncate(bounds::NODES);
                let nodes = nodes.into_iter().map(NodeInfo::bounded).collect();
                NodesAnswer { nodes, all, error: None }
            }
            Err(error) => NodesAnswer { error: Some(error.to_string()), ..NodesAnswer::default() },
        };
        // texts and numbers can be written
        serde_json::to_vec(&answer).unwrap_or_default().into()
    }
}
