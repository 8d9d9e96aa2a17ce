//! The calls of a node that wait for answers.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hasher};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use async_nats::{Message, StatusCode, Subject};
use asyncsteps_actors::random;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::node::NodeId;

/// The token of the inbox that probes come to.
pub(super) const PROBE: &str = "probe";

/// The status of an answer by the node itself: the server did not permit the call.
pub(super) const FORBIDDEN: u16 = 403;

/// The prefix of inboxes of nodes; inboxes of other programs do not have it.
const INBOXES: &str = "_INBOX.ftn-";

/// Whether an answer to this subject goes to a node.
pub(super) fn is_of_node(reply_subject: &str) -> bool {
    let token = reply_subject.rsplit_once('.').map(|(_, token)| token.parse::<u64>());
    reply_subject.starts_with(INBOXES) && token.is_some_and(|token| token.is_ok())
}

/// The calls that wait for answers, by the last token of their reply subjects.
///
/// The client of NATS has such a table too. It keeps abandoned calls for ever, and does not know the
/// messages of nodes that probe.
#[derive(Debug)]
pub(super) struct NatsCalls {
    /// Answers come to subjects below.
    inbox: String,
    waiting: Mutex<BTreeMap<u64, WaitingAnswer>>,
    /// How many wait, so that the limit needs no lock.
    count: AtomicUsize,
    /// Notified when there are some again.
    begun: Notify,
    max: usize,
    made: AtomicU64,
    /// Makes tokens of the numbers of calls: SipHash after a random secret, so that knowing some tokens does not reveal
    /// the next ones.
    tokens: DefaultHasher,
}

#[derive(Debug)]
struct WaitingAnswer {
    answer: oneshot::Sender<Message>,
    /// Where the call was sent.
    subject: Subject,
    /// The node that carries the call out: the one that it was sent to, or one that has probed.
    node: Option<NodeId>,
    since: Instant,
}

/// A call that waits; dropping this abandons it.
#[derive(Debug)]
pub(super) struct CallWait<'a> {
    calls: &'a NatsCalls,
    token: u64,
    answer: oneshot::Receiver<Message>,
    /// There is an answer, and the call is no longer in the table.
    is_answered: bool,
}

impl NatsCalls {
    /// No calls yet; at most `max` at once. `id` distinguishes the inbox from all others.
    pub(super) fn new(id: &str, max: usize) -> Self {
        let mut tokens = DefaultHasher::new();
        tokens.write(random::id().as_bytes());
        Self {
            inbox: format!("{INBOXES}{id}"),
            waiting: Mutex::default(),
            count: AtomicUsize::new(0),
            begun: Notify::new(),
            max,
            made: AtomicU64::new(0),
            tokens,
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
    pub(super) fn begin(&self, node: Option<NodeId>) -> Option<CallWait<'_>> {
        if self.count() >= self.max {
            self.count.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(self.wait(node))
    }

    /// Registers a message of the node itself, such as a probe, for which there is always room.
    pub(super) fn begin_own(&self) -> CallWait<'_> {
        self.count();
        self.wait(None)
    }

    fn wait(&self, node: Option<NodeId>) -> CallWait<'_> {
        let (sender, answer) = oneshot::channel();
        let call =
            WaitingAnswer { answer: sender, subject: "".into(), node, since: Instant::now() };
        let token = self.register(call);
        CallWait { calls: self, token, answer, is_answered: false }
    }

    /// Assigns a call a token that no other waiting call has.
    fn register(&self, call: WaitingAnswer) -> u64 {
        let mut waiting = self.waiting.lock();
        loop {
            let mut token = self.tokens.clone();
            token.write_u64(self.made.fetch_add(1, Ordering::Relaxed));
            let token = token.finish();
            if let Entry::Vacant(entry) = waiting.entry(token) {
                entry.insert(call);
                return token;
            }
        }
    }

    /// Takes the answer to the call with this token. An answer to an abandoned call is dropped.
    pub(super) fn answer(&self, token: u64, message: Message) {
        let waiting = self.waiting.lock().remove(&token);
        if let Some(WaitingAnswer { answer, .. }) = waiting {
            // the call may be abandoned at this moment
            let _ = answer.send(message);
        }
    }

    /// The connection was lost, and with it the answers to all calls.
    pub(super) fn lose_all(&self) {
        let lost = std::mem::take(&mut *self.waiting.lock());
        drop(lost);
        self.begun.notify_one();
    }

    /// Waits until there are some, or until the connection is lost.
    pub(super) async fn some(&self) {
        if self.count.load(Ordering::Relaxed) == 0 {
            self.begun.notified().await;
        }
    }

    /// Counts one more; returns how many there were.
    fn count(&self) -> usize {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        if count == 0 {
            self.begun.notify_one();
        }
        count
    }

    /// The nodes that have had calls of this one since that time or before.
    pub(super) fn nodes(&self, since: Instant) -> BTreeSet<NodeId> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return BTreeSet::new();
        }
        let waiting = self.waiting.lock();
        let longer = waiting.values().filter(|call| call.since <= since);
        longer.filter_map(|call| call.node.clone()).collect()
    }

    /// A node is gone, and with it the answers to the calls that it has had since that time or before.
    pub(super) fn lose(&self, node: &NodeId, since: Instant) {
        let is_kept = |call: &WaitingAnswer| call.since > since || call.node.as_ref() != Some(node);
        self.waiting.lock().retain(|_, call| is_kept(call));
    }

    /// The server did not permit messages to this subject, and thus the calls that were sent there.
    pub(super) fn refuse(&self, subject: &str) {
        let mut waiting = self.waiting.lock();
        let (refused, wanted): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut *waiting).into_iter().partition(|(_, it)| &*it.subject == subject);
        *waiting = wanted;
        for refused in refused.into_values() {
            let (payload, status) = (Bytes::new(), StatusCode::from_u16(FORBIDDEN).ok());
            let (reply, headers, description, length) = (None, None, None, 0);
            let subject = refused.subject;
            let answer = Message { subject, reply, payload, headers, status, description, length };
            let _ = refused.answer.send(answer);
        }
    }

    /// A node asks which of these calls are wanted, a token in each line; returns the unwanted
    /// ones.
    pub(super) fn unwanted(&self, tokens: &str, node: Option<&NodeId>) -> String {
        let mut waiting = self.waiting.lock();
        let mut unwanted = String::new();
        for token in tokens.lines() {
            let parsed = token.parse().ok();
            match parsed.and_then(|token| waiting.get_mut(&token)) {
                Some(wanted) => wanted.node = node.cloned(),
                None => {
                    unwanted += token;
                    unwanted.push('\n');
                }
            }
        }
        unwanted
    }
}

impl CallWait<'_> {
    /// The subject that the answer comes to.
    pub(super) fn reply_subject(&self) -> String {
        let Self { calls: NatsCalls { inbox, .. }, token, .. } = self;
        // the most digits of a token
        let mut subject = String::with_capacity(inbox.len() + 21);
        subject += inbox;
        subject.push('.');
        subject += itoa::Buffer::new().format(*token);
        subject
    }

    /// Notes where the call is sent.
    pub(super) fn goes_to(&self, subject: Subject) {
        if let Some(call) = self.calls.waiting.lock().get_mut(&self.token) {
            call.subject = subject;
        }
    }

    /// Waits for the answer; `None` if the connection is lost.
    pub(super) async fn answer(&mut self) -> Option<Message> {
        let answer = (&mut self.answer).await.ok()?;
        self.is_answered = true;
        Some(answer)
    }

    /// Abandons the call; returns the node that carries it out, if that is known.
    pub(super) fn give_up(&self) -> Option<NodeId> {
        match self.is_answered {
            true => None,
            false => self.calls.waiting.lock().remove(&self.token).and_then(|waiting| waiting.node),
        }
    }
}

impl Drop for CallWait<'_> {
    fn drop(&mut self) {
        self.calls.count.fetch_sub(1, Ordering::Relaxed);
        drop(self.give_up());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;

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
        let calls = NatsCalls::new("x", 2);
        let (mut one, two) = (calls.begin(None).expect("room"), calls.begin(None).expect("room"));
        assert!(calls.begin(None).is_none(), "two at most");
        assert_eq!(one.reply_subject(), format!("_INBOX.ftn-x.{}", one.token));
        for token in [0, 1, !one.token] {
            calls.answer(token, message("no"));
        }
        assert!(one.answer().now_or_never().is_none());
        calls.answer(one.token, message("yes"));
        let answer = one.answer().now_or_never().expect("it is there");
        assert_eq!(answer.expect("an answer").payload, "yes");
        drop((one, two));
        assert!(
            calls.waiting.lock().is_empty() && calls.begin(None).is_some(),
            "what is over is forgotten"
        );
    }

    #[test]
    fn nodes_are_told_which_calls_were_given_up() {
        let calls = NatsCalls::new("x", 9);
        let (kept, dropped) = (calls.begin(None).expect("room"), calls.begin(None).expect("room"));
        let unwanted = format!("{}\njunk\n", dropped.token);
        let tokens = format!("{}\n{unwanted}", kept.token);
        drop(dropped);
        let node: NodeId = "n1".parse().expect("a name");
        assert_eq!(calls.unwanted(&tokens, Some(&node)), unwanted);
        assert_eq!(kept.give_up(), Some(node));
    }

    #[test]
    fn a_token_says_nothing_about_others() {
        let (one, other) = (NatsCalls::new("x", 9), NatsCalls::new("x", 9));
        let tokens = |calls: &NatsCalls| -> Vec<u64> {
            (0..9).filter_map(|_| calls.begin(None).map(|call| call.token)).collect()
        };
        let (one, other) = (tokens(&one), tokens(&other));
        assert_eq!(one.len(), 9);
        assert!(one.iter().all(|token| !other.contains(token)), "{one:?} {other:?}");
        assert!(one.windows(2).all(|pair| pair[0].abs_diff(pair[1]) > 1_000), "{one:?}");
    }

    #[test]
    fn a_lost_connection_ends_all_calls() {
        let calls = NatsCalls::new("x", 9);
        let mut one = calls.begin(None).expect("room");
        calls.lose_all();
        assert!(one.answer().now_or_never().expect("it has ended").is_none());
    }

    #[tokio::test]
    async fn the_calls_that_a_lost_node_has_had_end() {
        tokio::time::pause();
        let calls = NatsCalls::new("x", 9);
        let [gone, other] = ["n1", "n2"].map(|name| name.parse::<NodeId>().expect("a name"));
        let begin = |node: Option<&NodeId>| calls.begin(node.cloned()).expect("room");
        let (mut lost, mut kept, mut unknown) =
            (begin(Some(&gone)), begin(Some(&other)), begin(None));
        let asked_at = Instant::now();
        tokio::time::advance(Duration::from_millis(1)).await;
        let mut later = begin(Some(&gone));
        assert_eq!(calls.nodes(asked_at), BTreeSet::from([gone.clone(), other]));
        calls.lose(&gone, asked_at);
        assert!(lost.answer().now_or_never().expect("it has ended").is_none());
        for call in [&mut kept, &mut unknown, &mut later] {
            assert!(call.answer().now_or_never().is_none(), "it waits");
        }
    }
}
