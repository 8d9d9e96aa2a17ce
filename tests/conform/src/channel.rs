//! What functions know of the way to their caller, and calls the other way.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_actors::flow::start_flow;
use asyncsteps_core::{AsyncSteps, Flow, StepResult, codes};
use asyncsteps_executor::channel::{Channel, ChannelKind};
use asyncsteps_executor::iface::Definition;
use asyncsteps_executor::raw::Cookie;
use asyncsteps_executor::{Functions, RequestSteps};
use serde_json::json;

use super::template;

/// How far apart events are.
const PAUSE: Duration = Duration::from_millis(5);

/// The calls of `channelInfo` on a channel.
#[derive(Default)]
struct Calls(i64);

/// The sum of what the client answered to events on a channel.
#[derive(Default)]
struct Acks(i64);

/// Gives the functions of `conform.main` that show the channel.
pub(super) fn define(functions: &mut Functions) {
    functions.add("channelInfo", &template(channel_info)).add("httpInfo", &template(http_info));
}

/// Gives the functions of `conform.bidi`.
pub(super) fn bidi(functions: &mut Functions, events: &Arc<Definition>) {
    let events = Arc::clone(events);
    let subscribe = template(move |asi| {
        let count: i64 = asi.param("count")?;
        let channel = asi.request()?.channel().clone();
        channel.register(Arc::clone(&events))?;
        // a task of its own, because the events go on when the request is answered
        actix_rt::spawn(async move {
            if let Err(error) = start_flow::<()>(send_events(channel, count)).await {
                tracing::debug!(%error, "no more events");
            }
        });
        asi.reply(json!({ "ok": true }))
    });
    let acks = template(|asi| {
        let sum = asi.request()?.channel().with_state(|acks: &mut Acks| acks.0);
        asi.reply(json!({ "sum": sum }))
    });
    functions.add("subscribe", &subscribe).add("acks", &acks);
}

/// Calls the client `count` times, whether it answers or not, as long as it is there.
fn send_events(channel: Channel, count: i64) -> Flow {
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        asi.repeat(usize::try_from(count).unwrap_or(0), move |asi, before| {
            let channel = channel.clone();
            asi.sleep(PAUSE);
            asi.add(move |asi, ()| {
                if channel.is_closed() {
                    return asi.error(codes::COMM_ERROR, "the client is gone");
                }
                actix_rt::spawn(send_event(channel.clone(), before + 1));
                Ok(())
            });
        });
    });
    flow
}

/// Calls the client and adds up what it answers.
async fn send_event(channel: Channel, n: usize) {
    match channel.call("conform.events:1.0:event", json!({ "n": n })).await {
        Ok(answer) => {
            let ack = answer["ack"].as_i64().unwrap_or_default();
            channel.with_state(|acks: &mut Acks| acks.0 += ack);
        }
        Err(error) => tracing::debug!(%error, "no acknowledgement"),
    }
}

fn channel_info(asi: &mut AsyncSteps) -> StepResult {
    let info = asi.request()?;
    let channel = info.channel();
    let calls = channel.with_state(|calls: &mut Calls| {
        calls.0 += 1;
        calls.0
    });
    let (addr_type, host) = match channel.peer() {
        Some(SocketAddr::V4(peer)) => ("IPv4", peer.ip().to_string()),
        Some(SocketAddr::V6(peer)) => ("IPv6", peer.ip().to_string()),
        None => ("LOCAL", String::new()),
    };
    let result = json!({
        "type": channel.kind().name(),
        "stateful": channel.is_stateful(),
        "secure": channel.is_secure(),
        "addr_type": addr_type,
        "host": host,
        "seclvl": info.level().name(),
        "calls": calls,
    });
    asi.reply(result)
}

fn http_info(asi: &mut AsyncSteps) -> StepResult {
    let info = asi.request()?;
    let result = json!({ "header": info.header("x-conform"), "cookie": info.cookie("conform") });
    if info.channel().kind() != ChannelKind::Http {
        return asi.error(codes::INVALID_REQUEST, "HTTP is required");
    }
    let head = asi.head_mut()?;
    head.set_header("x-conform-reply", "yes")?.set_cookie(Cookie::new("conform", "c1"))?;
    asi.reply(result)
}
