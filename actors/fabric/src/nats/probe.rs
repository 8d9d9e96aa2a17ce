//! Asking callers whether they still wait.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use asyncsteps_actors::{clock, timer};
use futures_util::{StreamExt, stream};

use super::wanted::unwanted;
use super::worker::NatsWorker;
use crate::call_error::{CallError, Outcome};

/// After this number of probes without an answer a caller is gone.
const MISSES: u8 = 3;

/// The most tokens in a probe; callers do not look at much larger ones.
const MAX_TOKENS: usize = 256;

/// The most bytes of a token, and its line break.
const TOKEN: usize = 21;

/// More than the headers of a probe have.
const HEADERS: usize = 256;

/// How many callers are asked at once. Each that does not answer takes a whole interval.
const AT_ONCE: usize = 256;

/// The result of asking a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contact {
    Answered,
    /// Nothing takes the probe, or there is no answer in time.
    Silent,
    /// The probe was not sent, or the connection was lost: that says nothing about the caller.
    NotAsked,
}

/// Asks the callers of longer requests, again and again, and cancels unwanted ones.
pub(super) async fn probe_callers(worker: Rc<NatsWorker>) {
    let interval = worker.link.config.probe_interval;
    let mut missed: BTreeMap<String, u8> = BTreeMap::new();
    loop {
        let asked_at = clock::now();
        timer::sleep_until(asked_at + interval).await;
        let callers = by_caller(worker.begun_before(asked_at));
        missed.retain(|inbox, _| callers.contains_key(inbox));
        let asked = stream::iter(callers).map(|(inbox, replies)| {
            let worker = &*worker;
            async move {
                let contact = ask(worker, &inbox, &replies, interval).await;
                (inbox, replies, contact)
            }
        });
        let mut asked = std::pin::pin!(asked.buffer_unordered(AT_ONCE));
        while let Some((inbox, replies, contact)) = asked.next().await {
            match contact {
                Contact::Answered => drop(missed.remove(&inbox)),
                Contact::Silent => {
                    let misses = missed.entry(inbox).or_default();
                    *misses += 1;
                    if *misses >= MISSES {
                        tracing::debug!(requests = replies.len(), "a caller is gone");
                        replies.iter().for_each(|reply| worker.cancel(reply));
                    }
                }
                Contact::NotAsked => {}
            }
        }
    }
}

/// Asks a caller which of these calls it wants, in as many messages as that takes, and cancels the others.
async fn ask(worker: &NatsWorker, inbox: &str, replies: &[Rc<str>], limit: Duration) -> Contact {
    let NatsWorker { link, .. } = worker;
    let room = link.connection.max_payload().saturating_sub(HEADERS) / TOKEN;
    for replies in replies.chunks(room.clamp(1, MAX_TOKENS)) {
        match unwanted(link, inbox, replies, limit).await {
            Ok(unwanted) => {
                for token in unwanted.lines() {
                    worker.cancel(&format!("{inbox}.{token}"));
                }
            }
            // a node that has just reconnected says nothing about its callers
            Err(_) if !link.is_connected() || !link.is_settled() => return Contact::NotAsked,
            Err(error) if error.outcome() == Outcome::Unknown => return Contact::Silent,
            Err(error) if error == CallError::not_served() => return Contact::Silent,
            Err(_) => return Contact::NotAsked,
        }
    }
    Contact::Answered
}

/// Reply subjects by the inbox that they are in.
fn by_caller(replies: Vec<Rc<str>>) -> BTreeMap<String, Vec<Rc<str>>> {
    let mut callers: BTreeMap<String, Vec<Rc<str>>> = BTreeMap::new();
    for reply in replies {
        if let Some((inbox, _)) = reply.rsplit_once('.') {
            callers.entry(inbox.to_owned()).or_default().push(reply);
        }
    }
    callers
}
