//! The live nodes, looked at again and again once they are asked for.

use std::sync::Arc;

use parking_lot::RwLock;
use tokio::sync::Notify;

use super::control::discover;
use super::link::Link;
use crate::live_nodes::LiveNodes;

/// The nodes as they were last seen.
#[derive(Debug, Default)]
pub(super) struct View {
    nodes: RwLock<LiveNodes>,
    wanted: Notify,
}

impl View {
    /// The nodes; none before the first look, which this asks for.
    pub(super) fn nodes(&self) -> LiveNodes {
        let nodes = self.nodes.read().clone();
        if nodes.is_empty() {
            self.wanted.notify_one();
        }
        nodes
    }

    /// Looks at the nodes from the time that they are asked for until the connection ends. While there is
    /// no connection, the last view stays.
    pub(super) async fn watch(self: Arc<Self>, link: Arc<Link>) {
        self.wanted.notified().await;
        while !link.is_closed() {
            if let Ok(nodes) = discover(&link).await {
                let mut view = self.nodes.write();
                *view = LiveNodes::of(&nodes);
            }
            tokio::time::sleep(link.config.view_interval).await;
        }
    }
}
