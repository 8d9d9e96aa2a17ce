//! The questions to callers which of their calls they want.

use std::rc::Rc;
use std::time::Duration;

use async_nats::HeaderMap;

use super::calls::{PROBE as PROBE_TOKEN, is_of_node};
use super::headers::{NODE, PROBE};
use super::link::Link;
use crate::call_error::CallError;

/// Whether the caller of a request still waits, unless it is there and has no time to answer. Programs that are no nodes
/// are not asked.
pub(super) async fn is_wanted(link: &Link, reply: &str) -> bool {
    let Some((inbox, _)) = reply.rsplit_once('.').filter(|_| is_of_node(reply)) else {
        return true;
    };
    let unwanted = unwanted(link, inbox, &[reply.into()], link.config.probe_interval).await;
    unwanted.map_or_else(|error| error != CallError::not_served(), |unwanted| unwanted.is_empty())
}

/// The tokens of the calls that a caller does not want any more.
pub(super) async fn unwanted(
    link: &Link,
    inbox: &str,
    replies: &[Rc<str>],
    limit: Duration,
) -> Result<String, CallError> {
    let tokens = replies.iter().filter_map(|reply| Some(reply.rsplit_once('.')?.1));
    let payload = tokens.collect::<Vec<_>>().join("\n");
    let mut headers = HeaderMap::new();
    headers.insert(PROBE, "1");
    headers.insert(NODE, link.node.as_str());
    let subject = format!("{inbox}.{PROBE_TOKEN}");
    let answer = link.exchange(subject, headers, payload.into(), limit).await?;
    Ok(String::from_utf8_lossy(&answer.payload).into_owned())
}
