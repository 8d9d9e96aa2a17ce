//! Messages between nodes other than calls: who is there, and which calls have ended.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_nats::message::OutboundMessage;
use async_nats::{HeaderMap, Message};
use asyncsteps_actors::random;
use asyncsteps_core::codes;
use asyncsteps_executor::iface::IfaceVer;
use bytes::Bytes;
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};

use super::connection::Subscription;
use super::link::Link;
use super::serve::{Members, each_member};
use super::subjects::MAX_REPLY;
use crate::call_error::CallError;
use crate::node::{ALL, NodeId, NodeInfo};

/// The answer of a node whose application does not wait for orders to drain.
const NO_DRAIN: &str = "this node takes no orders to drain";

/// The most nodes that are listed: ten times what one server connects well.
const MAX_NODES: usize = 10_000;

/// The longest description of a node that is read, in bytes: a thousand interfaces.
const MAX_DESCRIPTION: usize = 1 << 16;

/// A node's description of itself.
#[derive(Serialize, Deserialize)]
struct NodeDescription {
    #[serde(flatten)]
    info: NodeInfo,
    /// It knows the secret of nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    proof: Option<String>,
    /// Distinguishes nodes of one name.
    #[serde(default)]
    id: String,
}

/// Does what other nodes ask for, until the connection ends; what one says it serves is `heard`.
pub(super) async fn take_orders(
    link: Arc<Link>,
    members: Members,
    heard: impl Fn(NodeInfo),
    mut orders: Box<dyn Subscription>,
) {
    while let Some(message) = orders.next().await {
        let Message { subject, reply, payload, .. } = &message;
        match subject.rsplit_once('.') {
            Some((_, "cancel")) => {
                // other texts are no reply subjects
                let reply = payload.get(..).filter(|reply| reply.len() <= MAX_REPLY);
                if let Some(Ok(reply)) = reply.map(std::str::from_utf8) {
                    each_member(&members, |member| member.cancel(reply));
                }
            }
            Some((to, "ping")) => {
                // one that asks for this very node asks whether its name is taken
                let is_named = link.subjects.is_to(to, &link.node);
                let info = describe(&link, &members);
                let is_there = is_named || !info.interfaces.is_empty();
                if let Some(reply) = reply.clone().filter(|_| is_there && !link.is_closed()) {
                    let proof = link.config.trust.prove(&link.node, &reply);
                    let id = link.id.clone();
                    let description = NodeDescription { info, proof, id };
                    if let Ok(description) = serde_json::to_vec(&description) {
                        link.publish(reply, description.into()).await;
                    }
                }
            }
            Some((_, "serves")) => {
                if let Some(description) = read_description(&link, &message) {
                    heard(description.info);
                }
            }
            Some((to, "drain")) => {
                if let Some(reply) = reply.clone().filter(|_| link.subjects.is_to(to, &link.node)) {
                    let refused = (!link.order_drain()).then_some(NO_DRAIN);
                    link.publish(reply, refused.unwrap_or_default().into()).await;
                }
            }
            _ => {}
        }
    }
}

/// Says to all nodes what this one serves: those that call send it calls from now on.
pub(super) async fn announce(link: &Link, members: &Members) {
    let (info, id) = (describe(link, members), link.id.clone());
    let description = NodeDescription { info, proof: None, id };
    if let Ok(description) = serde_json::to_vec(&description) {
        link.publish(link.subjects.control(ALL, "serves").into(), description.into()).await;
    }
}

/// Whether another node answers to the name of this one. One that was killed does not, even if the server
/// still knows its connection.
pub(super) async fn is_name_taken(link: &Link) -> bool {
    let (subject, limit) =
        (link.subjects.control(link.node.as_str(), "ping"), link.config.discovery_time);
    link.exchange(subject, HeaderMap::new(), Bytes::new(), limit).await.is_ok()
}

/// Orders a node to drain.
pub(super) async fn order_drain(link: &Link, node: &NodeId) -> Result<(), CallError> {
    let (subject, limit) =
        (link.subjects.control(node.as_str(), "drain"), link.config.connect_timeout);
    let told = link.exchange(subject, HeaderMap::new(), Bytes::new(), limit).await;
    let refused = told.map_err(|error| error.of_missing_node(node))?.payload;
    match refused.is_empty() {
        true => Ok(()),
        // other programs could answer with any text
        false => Err(CallError::answered(codes::NOT_IMPLEMENTED, NO_DRAIN.to_owned())),
    }
}

/// Asks all nodes what they serve, and returns their answers.
pub(super) async fn discover(link: &Link) -> Result<Vec<NodeInfo>, CallError> {
    let lost = || CallError::connect("the NATS server cannot be reached");
    let mut losses = link.connection.losses();
    let known = losses.borrow().count;
    if !link.is_connected() {
        return Err(lost());
    }
    let inbox = format!("_INBOX.{}", random::id());
    let mut answers = link.subscribe(inbox.clone(), None).await.map_err(|_| lost())?;
    let ping = OutboundMessage {
        subject: link.subjects.control(ALL, "ping").into(),
        reply: Some(inbox.into()),
        payload: Bytes::new(),
        headers: None,
    };
    link.connection.publish(ping).await.map_err(|_| lost())?;
    let mut nodes: BTreeMap<String, NodeInfo> = BTreeMap::new();
    let mut has_twin = false;
    let collect = async {
        while nodes.len() < MAX_NODES
            && let Some(answer) = answers.next().await
        {
            let Some(NodeDescription { info, id, .. }) = read_description(link, &answer) else {
                continue;
            };
            has_twin |= info.node == link.node.as_str() && !id.is_empty() && id != link.id;
            nodes.insert(info.node.clone(), info);
        }
    };
    // the end of the time is the normal case: it is not known how many nodes there are
    tokio::select! {
        biased;
        _ = tokio::time::timeout(link.config.discovery_time, collect) => {}
        _ = losses.wait_for(|losses| losses.count > known) => return Err(lost()),
    }
    if has_twin != link.has_twin.swap(has_twin, Ordering::Relaxed) && has_twin {
        tracing::error!(
            node = link.node.as_str(),
            "another node has the same name: end one of them"
        );
    }
    Ok(nodes.into_values().collect())
}

/// Logs which of the nodes that are there do not know the secret of this one.
pub(super) async fn compare_secrets(link: Arc<Link>) {
    // a node that cannot ask now learns it with each call that is refused
    for other in discover(&link).await.unwrap_or_default() {
        if other.has_other_secret {
            let (node, other) = (link.node.as_str(), other.node);
            tracing::warn!(
                node,
                other,
                "nodes have different secrets: calls between them on behalf of users are refused"
            );
        }
    }
}

/// The interfaces that a node says it serves. Other programs may answer too: names that no node or interface can have
/// are left out.
fn read_description(link: &Link, answer: &Message) -> Option<NodeDescription> {
    let text = Some(&answer.payload).filter(|text| text.len() <= MAX_DESCRIPTION)?;
    let NodeDescription { mut info, proof, id } = serde_json::from_slice(text).ok()?;
    let _: NodeId = info.node.parse().ok()?;
    let (trust, reply) = (&link.config.trust, &answer.subject);
    info.has_other_secret = trust.has_other_secret(&info.node, reply, proof.as_deref());
    info.interfaces.retain(|interface| interface.parse::<IfaceVer>().is_ok());
    Some(NodeDescription { info, proof, id })
}

/// The interfaces that this node serves.
fn describe(link: &Link, members: &Members) -> NodeInfo {
    let mut info = NodeInfo {
        node: link.node.to_string(),
        interfaces: Vec::new(),
        in_flight: 0,
        is_draining: true,
        has_other_secret: false,
    };
    each_member(members, |member| {
        info.interfaces.extend(member.interfaces());
        info.in_flight += member.in_flight();
        info.is_draining &= member.is_draining();
    });
    info.interfaces.sort_unstable();
    info
}
