//! What nodes tell each other beside calls: who is there, and which calls are over.

use std::sync::Arc;

use async_nats::{HeaderMap, Message, Subscriber};
use asyncsteps::codes;
use bytes::Bytes;
use futures_util::StreamExt;

use super::link::Link;
use super::serve::{Members, each_member};
use crate::call_error::CallError;
use crate::node::{ALL, NodeId, NodeInfo};

/// The answer of a node whose application does not wait for orders to drain.
const NO_DRAIN: &str = "this node takes no orders to drain";

/// Does what other nodes ask for, until the connection ends.
pub(super) async fn take_orders(link: Arc<Link>, members: Members, mut orders: Subscriber) {
    while let Some(message) = orders.next().await {
        let Message { subject, reply, payload, .. } = message;
        match subject.rsplit_once('.') {
            Some((_, "cancel")) => {
                if let Ok(reply) = std::str::from_utf8(&payload) {
                    each_member(&members, |member| member.cancel(reply));
                }
            }
            Some((_, "ping")) => {
                if let (Some(reply), Some(info)) = (reply, describe(&link, &members)) {
                    link.publish(reply, info).await;
                }
            }
            Some((to, "drain")) => {
                if let Some(reply) = reply.filter(|_| link.subjects.is_to(to, &link.node)) {
                    let refused = (!link.state.order_drain()).then_some(NO_DRAIN);
                    link.publish(reply, refused.unwrap_or_default().into()).await;
                }
            }
            _ => {}
        }
    }
}

/// Tells a node to drain.
pub(super) async fn order_drain(link: &Link, node: &NodeId) -> Result<(), CallError> {
    let (subject, limit) =
        (link.subjects.control(node.as_str(), "drain"), link.config.connect_timeout);
    let told = link.exchange(subject, HeaderMap::new(), Bytes::new(), limit).await;
    let refused = told.map_err(|error| error.of_missing_node(node))?.payload;
    match refused.is_empty() {
        true => Ok(()),
        false => {
            let info = String::from_utf8_lossy(&refused).into_owned();
            Err(CallError::answered(codes::NOT_IMPLEMENTED, info))
        }
    }
}

/// Asks all nodes what they serve.
pub(super) async fn discover(link: &Link) -> Result<Vec<NodeInfo>, CallError> {
    let lost = || CallError::connect("the NATS server cannot be reached");
    if !link.is_connected() {
        return Err(lost());
    }
    let inbox = link.client.new_inbox();
    let mut answers = link.client.subscribe(inbox.clone()).await.map_err(|_| lost())?;
    let subject = link.subjects.control(ALL, "ping");
    let asked = link.client.publish_with_reply(subject, inbox, Bytes::new()).await;
    asked.map_err(|_| lost())?;
    let mut nodes: Vec<NodeInfo> = Vec::new();
    let collect = async {
        while let Some(answer) = answers.next().await {
            // other programs may answer too
            nodes.extend(serde_json::from_slice::<NodeInfo>(&answer.payload).ok());
        }
    };
    // the end of the time is the normal case: it is not known how many nodes there are
    let _ = tokio::time::timeout(link.config.discovery_time, collect).await;
    nodes.sort_by(|one, other| one.node.cmp(&other.node));
    nodes.dedup_by(|one, other| one.node == other.node);
    Ok(nodes)
}

/// What this node serves, as JSON; `None` if it serves nothing.
fn describe(link: &Link, members: &Members) -> Option<Bytes> {
    let mut info = NodeInfo {
        node: link.node.to_string(),
        interfaces: Vec::new(),
        in_flight: 0,
        is_draining: true,
    };
    each_member(members, |member| {
        info.interfaces.extend(member.interfaces());
        info.in_flight += member.in_flight();
        info.is_draining &= member.is_draining();
    });
    info.interfaces.sort_unstable();
    if info.interfaces.is_empty() {
        return None;
    }
    serde_json::to_vec(&info).ok().map(Bytes::from)
}
