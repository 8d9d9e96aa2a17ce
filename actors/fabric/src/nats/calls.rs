//! The calls of a node that wait for answers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_nats::Message;
use tokio::sync::oneshot;

/// The token of the inbox that probes come to.
pub(super) const PROBE: &str = "probe";

/// What the inboxes of nodes begin with; those of other programs do not.
const INBOXES: &str = "_INBOX.ftn-";

/// Whether an answer to this subject goes to a node.
pub(super) fn is_of_node(reply_subject: &str) -> bool {
    reply_subject.starts_with(INBOXES)
}

/// The calls that wait for answers, by the last token of their reply subjects.
///
/// The client of NATS has such a table too. It keeps the calls that were given up for ever, and does not
/// know the messages of nodes that probe.
#[derive(Debug)]
pub(super) struct Calls {
    /// Answers come to subjects below.
    inbox: String,
    waiting: Mutex<HashMap<u64, Waiting>>,
    /// How many wait, so that the limit needs no lock.
    count: AtomicUsize,
    max: usize,
    made: AtomicU64,
}

#[derive(Debug)]
struct Waiting {
    answer: oneshot::Sender<Message>,
    /// The node that carries the call out, once it has probed.
    node: Option<String>,
}

/// A call that waits; dropping this gives it up.
#[derive(Debug)]
pub(super) struct Waits<'a> {
    calls: &'a Calls,
    number: u64,
    pub(super) answer: oneshot::Receiver<Message>,
}

impl Calls {
    /// None yet; at most so many at once. `id` tells the inbox from all others.
    pub(super) fn new(id: &str, max: usize) -> Self {
        Self {
            inbox: format!("{INBOXES}{id}"),
            waiting: Mutex::default(),
            count: AtomicUsize::new(0),
            max,
            made: AtomicU64::new(1),
        }
    }

    /// The subject of all answers and probes.
    pub(super) fn subject(&self) -> String {
        format!("{}.*", self.inbox)
    }

    /// The subject of probes.
    pub(super) fn probe_subject(&self) -> String {
        format!("{}.{PROBE}", self.inbox)
    }

    /// Registers a call, unless too many wait.
    pub(super) fn begin(&self) -> Option<Waits<'_>> {
        if self.count.fetch_add(1, Ordering::Relaxed) >= self.max {
            self.count.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        self.waiting().insert(number, Waiting { answer: sender, node: None });
        Some(Waits { calls: self, number, answer })
    }

    /// Takes the answer to a call. One to a call that was given up is dropped.
    pub(super) fn answer(&self, token: &str, message: Message) {
        let number = u64::from_str_radix(token, 16).ok();
        let waiting = number.and_then(|number| self.waiting().remove(&number));
        if let Some(Waiting { answer, .. }) = waiting {
            // the call may be given up at this moment
            let _ = answer.send(message);
        }
    }

    /// The connection was lost, and with it the answers to all calls.
    pub(super) fn lose_all(&self) {
        let lost = std::mem::take(&mut *self.waiting());
        drop(lost);
    }

    /// A node asks which of these calls are wanted, a token in each line; gives those that are not.
    pub(super) fn unwanted(&self, tokens: &str, node: &str) -> String {
        let mut waiting = self.waiting();
        let mut unwanted = String::new();
        for token in tokens.lines() {
            let number = u64::from_str_radix(token, 16).ok();
            match number.and_then(|number| waiting.get_mut(&number)) {
                Some(wanted) => wanted.node = Some(node.to_owned()),
                None => {
                    unwanted += token;
                    unwanted.push('\n');
                }
            }
        }
        unwanted
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<u64, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waits<'_> {
    /// The subject that the answer comes to.
    pub(super) fn reply_subject(&self) -> String {
        format!("{}.{:x}", self.calls.inbox, self.number)
    }

    /// Gives the call up; gives the node that carries it out, if that is known.
    pub(super) fn give_up(&self) -> Option<String> {
        self.calls.waiting().remove(&self.number).and_then(|waiting| waiting.node)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.calls.count.fetch_sub(1, Ordering::Relaxed);
        drop(self.calls.waiting().remove(&self.number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(payload: &'static str) -> Message {
        Message {
            subject: "s".into(),
            reply: None,
            payload: payload.into(),
            headers: None,
            status: None,
            description: None,
            length: payload.len(),
        }
    }

    #[test]
    fn answers_find_their_calls_and_others_are_dropped() {
        let calls = Calls::new("x", 2);
        let (mut one, two) = (calls.begin().expect("room"), calls.begin().expect("room"));
        assert!(calls.begin().is_none(), "two at most");
        assert_eq!((one.reply_subject(), two.reply_subject()).0, "_INBOX.ftn-x.1");
        for token in ["", "3", "x", "-1", PROBE] {
            calls.answer(token, message("no"));
        }
        assert!(one.answer.try_recv().is_err());
        calls.answer("1", message("yes"));
        assert_eq!(one.answer.try_recv().expect("an answer").payload, "yes");
        drop((one, two));
        assert!(calls.waiting().is_empty() && calls.begin().is_some(), "what is over is forgotten");
    }

    #[test]
    fn nodes_are_told_which_calls_were_given_up() {
        let calls = Calls::new("x", 9);
        let (kept, dropped) = (calls.begin().expect("room"), calls.begin().expect("room"));
        drop(dropped);
        assert_eq!(calls.unwanted("1\n2\njunk\n", "n1"), "2\njunk\n");
        assert_eq!(kept.give_up().as_deref(), Some("n1"));
    }

    #[test]
    fn a_lost_connection_ends_all_calls() {
        let calls = Calls::new("x", 9);
        let mut one = calls.begin().expect("room");
        calls.lose_all();
        assert!(matches!(one.answer.try_recv(), Err(oneshot::error::TryRecvError::Closed)));
    }
}
