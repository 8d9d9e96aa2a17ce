//! Asking callers whether they still wait.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use async_nats::HeaderMap;
use asyncsteps_actors::{clock, timer};

use super::calls::PROBE as PROBE_TOKEN;
use super::headers::{NODE, PROBE};
use super::worker::Worker;
use crate::call_error::CallError;

/// After so many probes without an answer a caller is gone.
const MISSES: u8 = 3;

/// Asks the callers of longer requests, again and again, and cancels what is not wanted.
pub(super) async fn probe_callers(worker: Rc<Worker>) {
    let interval = worker.link.config.probe_interval;
    let mut missed: HashMap<String, u8> = HashMap::new();
    loop {
        let asked_at = clock::now();
        timer::sleep_until(asked_at + interval).await;
        let callers = by_caller(worker.begun_before(asked_at));
        missed.retain(|inbox, _| callers.contains_key(inbox));
        for (inbox, replies) in callers {
            let answer = ask(&worker, &inbox, &replies, interval).await;
            match answer {
                Ok(unwanted) => {
                    missed.remove(&inbox);
                    for token in unwanted.lines() {
                        worker.cancel(&format!("{inbox}.{token}"));
                    }
                }
                // a node that has just reconnected says nothing about its callers
                Err(_) if !worker.link.is_connected() || !worker.link.state.is_settled() => {}
                Err(_) => {
                    let misses = missed.entry(inbox).or_default();
                    *misses += 1;
                    if *misses >= MISSES {
                        tracing::debug!(requests = replies.len(), "a caller is gone");
                        replies.iter().for_each(|reply| worker.cancel(reply));
                    }
                }
            }
        }
    }
}

/// The tokens of the calls that a caller does not want any more.
async fn ask(
    worker: &Worker,
    inbox: &str,
    replies: &[Rc<str>],
    limit: Duration,
) -> Result<String, CallError> {
    let tokens = replies.iter().filter_map(|reply| Some(reply.rsplit_once('.')?.1));
    let payload = tokens.collect::<Vec<_>>().join("\n");
    let mut headers = HeaderMap::new();
    headers.insert(PROBE, "1");
    headers.insert(NODE, worker.link.node.as_str());
    let subject = format!("{inbox}.{PROBE_TOKEN}");
    let answer = worker.link.exchange(subject, headers, payload.into(), limit).await?;
    Ok(String::from_utf8_lossy(&answer.payload).into_owned())
}

/// Reply subjects by the inbox that they are in.
fn by_caller(replies: Vec<Rc<str>>) -> HashMap<String, Vec<Rc<str>>> {
    let mut callers: HashMap<String, Vec<Rc<str>>> = HashMap::new();
    for reply in replies {
        if let Some((inbox, _)) = reply.rsplit_once('.') {
            callers.entry(inbox.to_owned()).or_default().push(reply);
        }
    }
    callers
}
