//! The network of a cluster: the server of NATS between the nodes, and the faults on the way to it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_actors::clock;
use asyncsteps_core::sim::Random;
use asyncsteps_fabric::nats::connection::{
    Losses, Message, NotSent, OutboundMessage, StatusCode, Subject,
};
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};

use crate::history::ClusterHistory;

/// How long a message takes between a node and the server, typically.
const LATENCY: Duration = Duration::from_millis(1);

/// The largest message, as servers have it by default.
pub(crate) const MAX_PAYLOAD: usize = 1 << 20;

/// The network of a cluster. Cloning shares.
#[derive(Clone)]
pub(crate) struct Network(Arc<Mutex<SimulatedServer>>);

/// A fault of the way between a node and the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NetworkCut {
    /// The connection and the messages in flight on it are lost; the node notices.
    Lost,
    /// Nothing passes, without notice.
    Silent,
    /// Messages from the node do not arrive.
    Mute,
    /// Messages to the node do not arrive.
    Deaf,
    /// Messages arrive when it is over, as those of a server that does not run: the ones from the node also if it has
    /// ended the connection meanwhile.
    Frozen,
}

struct SimulatedServer {
    random: Random,
    history: ClusterHistory,
    /// The faults of the ways to nodes, and until when.
    cuts: BTreeMap<usize, (NetworkCut, Duration)>,
    connections: BTreeMap<u64, Joined>,
    subscriptions: BTreeMap<u64, Subscribed>,
    /// How many connections and subscriptions there were.
    made: u64,
    messages_lost: u32,
}

/// A connection.
struct Joined {
    node: usize,
    losses: watch::Sender<Losses>,
    /// The messages from the node that are sent when the connection is there again.
    waiting: Vec<OutboundMessage>,
    /// The messages to its subscriptions that a server has which does not run.
    held: Vec<(u64, Message)>,
}

/// A subscription.
struct Subscribed {
    connection: u64,
    subject: String,
    queue_group: Option<String>,
    delivered: u64,
    /// After how many messages it ends.
    ends_after: u64,
    messages: mpsc::UnboundedSender<Parcel>,
}

/// A message on its way to a node.
pub(crate) struct Parcel {
    pub(crate) message: Message,
    /// How long it is on its way.
    pub(crate) latency: Duration,
    /// How often the connection was lost when it was sent: it is lost with the next loss.
    pub(crate) losses: u64,
}

impl Network {
    pub(crate) fn new(seed: u64, history: ClusterHistory) -> Self {
        Self(Arc::new(Mutex::new(SimulatedServer {
            random: Random::new(seed),
            history,
            cuts: BTreeMap::new(),
            connections: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            made: 0,
            messages_lost: 0,
        })))
    }

    /// Cuts the way to a node until this time; an earlier fault of it has ended.
    pub(crate) fn cut(&self, node: usize, cut: NetworkCut, until: Duration) {
        let mut server = self.0.lock();
        server.restore(node);
        server.cuts.insert(node, (cut, until));
        if cut == NetworkCut::Lost {
            server.losses_of(node, Losses::lose);
        }
    }

    /// Advances the time: faults that lasted until now have ended.
    pub(crate) fn pass(&self, now: Duration) {
        let mut server = self.0.lock();
        let over = server.cuts.iter().filter(|(_, (_, until))| *until <= now);
        for node in over.map(|(node, _)| *node).collect::<Vec<_>>() {
            server.restore(node);
        }
    }

    /// Nothing is wrong any more.
    pub(crate) fn heal(&self) {
        self.pass(Duration::MAX);
    }

    /// A node was killed: its messages from now on are lost.
    pub(crate) fn kill(&self, node: usize) {
        let mut server = self.0.lock();
        let of_node = server.connections.iter().filter(|(_, joined)| joined.node == node);
        for connection in of_node.map(|(number, _)| *number).collect::<Vec<_>>() {
            server.leave(connection);
        }
    }

    pub(crate) fn messages_lost(&self) -> u32 {
        self.0.lock().messages_lost
    }

    /// A node connects; returns the number of the connection.
    pub(crate) fn connect(&self, node: usize) -> (u64, watch::Receiver<Losses>) {
        let mut server = self.0.lock();
        let number = server.number();
        let losses = watch::Sender::default();
        let seen = losses.subscribe();
        server
            .connections
            .insert(number, Joined { node, losses, waiting: Vec::new(), held: Vec::new() });
        (number, seen)
    }

    /// A node ends a connection that is silent and connects again, which it can when nothing is wrong any more.
    pub(crate) fn renew(&self, connection: u64) {
        let mut server = self.0.lock();
        let Some(joined) = server.connections.get_mut(&connection) else { return };
        let (node, held) = (joined.node, std::mem::take(&mut joined.held));
        server.messages_lost += u32::try_from(held.len()).unwrap_or(u32::MAX);
        server.losses_of(node, Losses::lose);
        match server.cuts.get_mut(&node) {
            Some((cut, _)) => *cut = NetworkCut::Lost,
            None => server.losses_of(node, Losses::end),
        }
    }

    /// A connection ends, with its subscriptions.
    pub(crate) fn leave(&self, connection: u64) {
        self.0.lock().leave(connection);
    }

    pub(crate) fn is_connected(&self, connection: u64) -> bool {
        self.0.lock().is_connected(connection)
    }

    pub(crate) fn publish(&self, from: u64, message: OutboundMessage) -> Result<(), NotSent> {
        if message.payload.len() > MAX_PAYLOAD {
            return Err(NotSent::TooLarge);
        }
        let mut server = self.0.lock();
        let waits = matches!(server.cut_of(from), Some(NetworkCut::Lost | NetworkCut::Frozen));
        let joined = server.connections.get_mut(&from).ok_or_else(ended)?;
        if waits {
            joined.waiting.push(message);
        } else {
            server.route(from, message);
        }
        Ok(())
    }

    /// Subscribes; returns the number of the subscription.
    pub(crate) fn subscribe(
        &self,
        connection: u64,
        subject: String,
        queue_group: Option<String>,
    ) -> Result<(u64, mpsc::UnboundedReceiver<Parcel>), NotSent> {
        let mut server = self.0.lock();
        if !server.connections.contains_key(&connection) {
            return Err(ended());
        }
        let (messages, parcels) = mpsc::unbounded_channel();
        let (delivered, ends_after) = (0, u64::MAX);
        let subscribed =
            Subscribed { connection, subject, queue_group, delivered, ends_after, messages };
        let number = server.number();
        server.subscriptions.insert(number, subscribed);
        Ok((number, parcels))
    }

    /// Ends a subscription after this number of messages since it was made.
    pub(crate) fn unsubscribe(
        &self,
        connection: u64,
        subscription: u64,
        after: u64,
    ) -> Result<(), NotSent> {
        let mut server = self.0.lock();
        if let Some(subscribed) = server.subscriptions.get_mut(&subscription) {
            subscribed.ends_after = after;
            server.end_if_over(subscription);
        }
        server.connections.contains_key(&connection).then_some(()).ok_or_else(ended)
    }

    /// A message is here, unless it was on its way when the connection was lost: so often it was lost until now.
    pub(crate) fn receive(
        &self,
        subscription: u64,
        parcel: Parcel,
        losses: u64,
    ) -> Option<Message> {
        let mut server = self.0.lock();
        let is_lost = parcel.losses < losses;
        server.messages_lost += u32::from(is_lost);
        let at = clock::now().since_epoch().as_millis();
        server.history.note((subscription, is_lost, at));
        (!is_lost).then_some(parcel.message)
    }
}

impl SimulatedServer {
    fn number(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    /// The node of a connection.
    fn node(&self, connection: u64) -> Option<usize> {
        self.connections.get(&connection).map(|joined| joined.node)
    }

    /// The fault of the way of a connection.
    fn cut_of(&self, connection: u64) -> Option<NetworkCut> {
        Some(self.cuts.get(&self.node(connection)?)?.0)
    }

    fn is_connected(&self, connection: u64) -> bool {
        self.connections.contains_key(&connection)
            && self.cut_of(connection) != Some(NetworkCut::Lost)
    }

    fn losses_of(&self, node: usize, change: fn(&mut Losses)) {
        let joined = self.connections.values().filter(|joined| joined.node == node);
        joined.for_each(|joined| joined.losses.send_modify(change));
    }

    /// Nothing is wrong with the way to a node any more: what waits is sent.
    fn restore(&mut self, node: usize) {
        if self.cuts.remove(&node).is_some_and(|(cut, _)| cut == NetworkCut::Lost) {
            self.losses_of(node, Losses::end);
        }
        let of_node = self.connections.iter_mut().filter(|(_, joined)| joined.node == node);
        let take = |(number, joined): (&u64, &mut Joined)| {
            (*number, std::mem::take(&mut joined.waiting), std::mem::take(&mut joined.held))
        };
        for (connection, waiting, held) in of_node.map(take).collect::<Vec<_>>() {
            held.into_iter().for_each(|(subscription, it)| self.deliver(subscription, it));
            waiting.into_iter().for_each(|message| self.route(connection, message));
        }
    }

    fn leave(&mut self, connection: u64) {
        self.connections.remove(&connection);
        self.subscriptions.retain(|_, subscribed| subscribed.connection != connection);
    }

    /// A message comes from a connection: it goes to each subscription of its subject, and to one of each queue group.
    fn route(&mut self, from: u64, message: OutboundMessage) {
        let OutboundMessage { subject, reply, payload, headers } = message;
        self.history.note((from, subject.as_str(), &payload[..]));
        if matches!(self.cut_of(from), Some(NetworkCut::Silent | NetworkCut::Mute)) {
            self.messages_lost += 1;
            return;
        }
        let to = self.choose(&subject);
        let length = subject.len() + reply.as_ref().map_or(0, |reply| reply.len()) + payload.len();
        let (status, description) = (None, None);
        let nobody = to.is_empty().then(|| reply.clone()).flatten();
        let message = Message { subject, reply, payload, headers, status, description, length };
        for subscription in to {
            self.deliver(subscription, message.clone());
        }
        if let Some(reply) = nobody {
            self.answer_nobody(from, reply);
        }
    }

    /// The subscriptions that a message goes to.
    fn choose(&mut self, subject: &str) -> Vec<u64> {
        let mut chosen = Vec::new();
        let mut groups: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for (number, subscribed) in &self.subscriptions {
            if self.is_connected(subscribed.connection) && matches(&subscribed.subject, subject) {
                match &subscribed.queue_group {
                    Some(group) => groups.entry(group).or_default().push(*number),
                    None => chosen.push(*number),
                }
            }
        }
        chosen.extend(groups.values().filter_map(|members| self.random.pick(members)));
        chosen
    }

    /// Reports to the one that waits for an answer that the message has no receiver.
    fn answer_nobody(&mut self, from: u64, reply: Subject) {
        let own = self.subscriptions.iter().filter(|(_, it)| it.connection == from);
        let waiting = own.filter(|(_, it)| matches(&it.subject, &reply));
        let waiting: Vec<_> = waiting.map(|(number, _)| *number).collect();
        let message = Message {
            length: reply.len(),
            subject: reply,
            reply: None,
            payload: Vec::new().into(),
            headers: None,
            status: Some(StatusCode::NO_RESPONDERS),
            description: None,
        };
        waiting.into_iter().for_each(|number| self.deliver(number, message.clone()));
    }

    /// Sends a message on its way to a subscription.
    fn deliver(&mut self, number: u64, message: Message) {
        let Some(subscribed) = self.subscriptions.get_mut(&number) else { return };
        let Some(joined) = self.connections.get_mut(&subscribed.connection) else { return };
        let cut = self.cuts.get(&joined.node).map(|(cut, _)| *cut);
        if matches!(cut, Some(NetworkCut::Silent | NetworkCut::Deaf)) {
            self.messages_lost += 1;
            return;
        }
        if cut == Some(NetworkCut::Frozen) {
            joined.held.push((number, message));
            return;
        }
        // from one node to the server, and from there to another one
        let latency = self.random.delay(LATENCY) + self.random.delay(LATENCY);
        let losses = joined.losses.borrow().count;
        subscribed.delivered += 1;
        // a subscription that is dropped at this moment needs none
        let _ = subscribed.messages.send(Parcel { message, latency, losses });
        self.end_if_over(number);
    }

    fn end_if_over(&mut self, subscription: u64) {
        let subscribed = self.subscriptions.get(&subscription);
        if subscribed.is_some_and(|it| it.delivered >= it.ends_after) {
            self.subscriptions.remove(&subscription);
        }
    }
}

fn ended() -> NotSent {
    NotSent::Ended("the connection has ended".to_owned())
}

/// Whether a subscription is for this subject: `*` is one token, `>` is all that are left.
fn matches(pattern: &str, subject: &str) -> bool {
    let mut tokens = subject.split('.');
    for wanted in pattern.split('.') {
        match (wanted, tokens.next()) {
            (">", Some(_)) => return true,
            ("*", Some(_)) => {}
            (wanted, Some(token)) if wanted == token => {}
            _ => return false,
        }
    }
    tokens.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network() -> Network {
        Network::new(1, ClusterHistory::default())
    }

    fn message(subject: &str, reply: Option<&str>) -> OutboundMessage {
        let (subject, reply) = (subject.into(), reply.map(Into::into));
        OutboundMessage { subject, reply, payload: "text".into(), headers: None }
    }

    /// The messages in flight to a subscription.
    fn taken(parcels: &mut mpsc::UnboundedReceiver<Parcel>) -> Vec<Parcel> {
        std::iter::from_fn(|| parcels.try_recv().ok()).collect()
    }

    #[test]
    fn one_member_of_a_group_gets_each_message() {
        let network = network();
        let (one, _) = network.connect(1);
        let subscribe = |group: Option<&str>| {
            let subscribed = network.subscribe(one, "a.*".into(), group.map(Into::into));
            subscribed.expect("it is connected").1
        };
        let mut members = [subscribe(Some("g")), subscribe(Some("g")), subscribe(None)];
        for _ in 0..20 {
            network.publish(one, message("a.b", None)).expect("it is sent");
        }
        let [first, second, all] = members.each_mut().map(|it| taken(it).len());
        assert_eq!((first + second, all), (20, 20));
        assert!(first > 0 && second > 0, "{first} {second}");
    }

    #[test]
    fn a_message_that_nobody_takes_is_answered() {
        let network = network();
        let (one, _) = network.connect(1);
        let (_, mut inbox) =
            network.subscribe(one, "_INBOX.1.*".into(), None).expect("it is there");
        network.publish(one, message("a.b", Some("_INBOX.1.7"))).expect("it is sent");
        let answers = taken(&mut inbox);
        let [Parcel { message: answer, .. }] = &*answers else { panic!("{}", answers.len()) };
        assert_eq!(answer.status, Some(StatusCode::NO_RESPONDERS));
        assert_eq!((&*answer.subject, answer.payload.len()), ("_INBOX.1.7", 0));
    }

    #[test]
    fn a_cut_says_what_is_lost() {
        for (cut, sent, got) in [
            (NetworkCut::Silent, 0, 0),
            (NetworkCut::Mute, 0, 1),
            (NetworkCut::Deaf, 1, 0),
            // its messages wait until it is connected again
            (NetworkCut::Lost, 1, 0),
            (NetworkCut::Frozen, 1, 1),
        ] {
            let network = network();
            let [(one, _), (other, _)] = [1, 2].map(|node| network.connect(node));
            let subscribe = |by, subject: &str| {
                network.subscribe(by, subject.into(), None).expect("it is connected").1
            };
            let (mut to_one, mut to_other) = (subscribe(one, "one"), subscribe(other, "other"));
            network.cut(1, cut, Duration::from_secs(1));
            assert_eq!(network.is_connected(one), cut != NetworkCut::Lost);
            network.publish(one, message("other", None)).expect("it is sent");
            network.publish(other, message("one", None)).expect("it is sent");
            network.pass(Duration::from_secs(1));
            assert_eq!(
                (taken(&mut to_other).len(), taken(&mut to_one).len()),
                (sent, got),
                "{cut:?}"
            );
            network.publish(other, message("one", None)).expect("it is sent");
            assert_eq!(taken(&mut to_one).len(), 1, "{cut:?} is over");
        }
    }

    #[test]
    fn a_silent_connection_is_lost_when_its_node_ends_it() {
        for (cut, sent) in [(NetworkCut::Mute, 0), (NetworkCut::Deaf, 1), (NetworkCut::Frozen, 1)] {
            let network = network();
            let [(one, losses), (other, _)] = [1, 2].map(|node| network.connect(node));
            let subscribe = |by, subject: &str| {
                network.subscribe(by, subject.into(), None).expect("it is connected").1
            };
            let (mut to_one, mut to_other) = (subscribe(one, "one"), subscribe(other, "other"));
            network.cut(1, cut, Duration::from_secs(1));
            network.publish(one, message("other", None)).expect("it is sent");
            network.publish(other, message("one", None)).expect("it is sent");
            let arrived = taken(&mut to_one).len();
            network.renew(one);
            assert!(!network.is_connected(one), "{cut:?}");
            assert_eq!(*losses.borrow(), Losses { count: 1, is_over: false });
            network.pass(Duration::from_secs(1));
            assert_eq!(*losses.borrow(), Losses { count: 1, is_over: true });
            let got = (taken(&mut to_other).len(), taken(&mut to_one).len());
            assert_eq!(got, (sent, 0), "{cut:?}, {arrived} before");
        }
    }

    #[test]
    fn a_killed_node_sends_and_gets_nothing() {
        let network = network();
        let (one, _) = network.connect(1);
        let (_, mut parcels) = network.subscribe(one, ">".into(), None).expect("it is connected");
        network.kill(1);
        assert_eq!(network.publish(one, message("a", None)), Err(ended()));
        assert!(parcels.blocking_recv().is_none(), "its subscriptions end");
    }

    #[test]
    fn wildcards_stand_for_tokens() {
        for (pattern, subject, expected) in [
            ("a.b", "a.b", true),
            ("a.b", "a.c", false),
            ("a.b", "a", false),
            ("a", "a.b", false),
            ("a.*", "a.b", true),
            ("a.*", "a.b.c", false),
            ("a.*.c", "a.b.c", true),
            ("a.>", "a.b.c", true),
            ("a.>", "a", false),
        ] {
            assert_eq!(matches(pattern, subject), expected, "{pattern} {subject}");
        }
    }
}
