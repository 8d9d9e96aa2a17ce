//! A rolling upgrade: processes of one version are replaced by those of the next one, while both take orders. Each order
//! that was accepted ends, with each of its effects once, and none is run by a version that does not know it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use asyncsteps_durable::Durable;
use asyncsteps_executor::Executor;
use asyncsteps_journal::record::{Ended, Ending, Started};
use asyncsteps_journal::request::{FlowInfo, FlowState};
use asyncsteps_journal::{Event, Incarnation, Journal, Uid};
use asyncsteps_postgres_server::Server;
use futures_util::future::join_all;

use crate::transact::bank::{PATIENCE, flows};
use crate::transact::process::{Process, was_shop};
use crate::transact::shop::{AGREED, Entry, Order, Shop};

/// How many further orders of each node end before the next one is replaced.
const ORDERS: usize = 2;

const TEST: &str =
    "transact::upgrade::every_accepted_order_ends_once_while_its_program_is_upgraded";

#[test]
fn every_accepted_order_ends_once_while_its_program_is_upgraded() {
    if was_shop() {
        return;
    }
    let Some(server) = Server::start() else { return };
    actix::System::new().block_on(async {
        let url = server.url();
        let upgraded = tokio::time::timeout(PATIENCE, upgrade(&url));
        upgraded.await.expect("nothing is stuck");
    });
}

async fn upgrade(url: &str) {
    let mut upgrade = Upgrade::of(url).await;
    for _ in 0..3 {
        upgrade.start(1).await;
    }
    upgrade.stop(0).await;
    upgrade.start(2).await;
    upgrade.go_on().await;

    // while the only new node is away, no old one takes what it has left
    upgrade.stop(2).await;
    upgrade.go_on().await;
    let mut left = upgrade.open().await;
    left.retain(|flow| flow.version == 2);
    assert!(!left.is_empty());
    assert!(left.iter().all(|flow| flow.owner.is_none()), "{left:?}");
    upgrade.start(2).await;

    upgrade.kill(0).await;
    upgrade.start(2).await;
    upgrade.go_on().await;
    upgrade.stop(0).await;
    upgrade.start(2).await;

    for _ in 0..3 {
        upgrade.stop(0).await;
    }
    upgrade.end_all().await;
    check(&upgrade).await;
}

/// An upgrade, as an operator sees it.
struct Upgrade<'a> {
    url: &'a str,
    /// A process of the next version, which runs no node at first.
    shop: Shop,
    durable: Durable,
    executor: Executor,
    /// The nodes, oldest first, and their names in the journal.
    nodes: Vec<(Process, Incarnation)>,
    /// What the nodes that have ended had accepted.
    accepted: BTreeSet<Uid>,
}

impl<'a> Upgrade<'a> {
    async fn of(url: &'a str) -> Self {
        let shop = Shop::open(url, 2).await;
        shop.create_books().await;
        let (durable, executor) = shop.process();
        Self { url, shop, durable, executor, nodes: Vec::new(), accepted: BTreeSet::new() }
    }

    /// Starts a node, and waits until an order that it has accepted has ended.
    async fn start(&mut self, version: i32) {
        let mut process = Process::start(TEST, self.url, version);
        process.goes_on(1).await;
        let newest = self.shop.journal.transaction(async |db| {
            let newest = "SELECT max(id) FROM asyncsteps.node";
            Ok(db.query_one(newest, &[]).await?.try_get::<_, i64>(0)?)
        });
        let newest = newest.await.expect("the table is there");
        self.nodes.push((process, Incarnation::new(newest.unsigned_abs())));
    }

    /// Waits until further orders of each node have ended.
    async fn go_on(&mut self) {
        join_all(self.nodes.iter_mut().map(|(process, _)| process.goes_on(ORDERS))).await;
    }

    async fn stop(&mut self, node: usize) {
        let (process, _) = self.nodes.remove(node);
        self.accepted.append(&mut process.stop().await);
    }

    /// Kills a node and ends its lease, so that others take its requests over now.
    async fn kill(&mut self, node: usize) {
        let (process, incarnation) = self.nodes.remove(node);
        self.accepted.append(&mut process.kill().await);
        // it may have ended by itself
        let _ = self.shop.journal.renew(incarnation, Duration::ZERO).await;
    }

    /// The requests that have not ended.
    async fn open(&self) -> Vec<FlowInfo> {
        let mut flows = flows(&self.durable).await;
        flows.retain(|flow| flow.state != FlowState::Ended);
        flows
    }

    /// Agrees to all orders that are open, and runs them on a node of this process until they have ended.
    async fn end_all(&self) {
        let node = self.durable.start(&self.executor).await.expect("the journal gives a lease");
        let end = async |uid| {
            // one that its customer has agreed to may have ended
            let _ = self.durable.signal(uid, AGREED, ()).await;
            self.durable.ended(uid).await.expect("the journal is there");
        };
        join_all(self.open().await.iter().map(|flow| end(flow.uid))).await;
        node.stop().await;
    }
}

/// An order that has ended, and what the bank was asked for it.
struct Request {
    started: Started,
    ending: Ending,
    /// With the name of the step for the key.
    entries: Vec<Entry>,
}

impl Request {
    fn is_refused(&self) -> bool {
        self.started.parameters.decode::<Order>().expect("an order").is_refused
    }

    /// Whether a process of the first version has begun it, and one of the next version has gone on with it.
    fn was_handed_over(&self) -> bool {
        let has = |version| self.entries.iter().any(|entry| entry.version == version);
        self.started.version == 1 && has(1) && has(2)
    }

    /// The steps that are done and not undone.
    fn kept(&self) -> Vec<&str> {
        let steps = |is_undo| {
            let entries = self.entries.iter().filter(move |entry| entry.is_undo == is_undo);
            entries.map(|entry| &*entry.key).collect::<BTreeSet<_>>()
        };
        steps(false).difference(&steps(true)).copied().collect()
    }

    /// All its steps are done, or none is, by processes that know them.
    fn check(&self, uid: Uid) {
        let Self { started, ending, entries } = self;
        let expected: &[&str] = match (ending, self.is_refused()) {
            (Ending::Completed(by), false) => match by.decode().expect("a version") {
                1 => &["pay", "reserve", "ticket"],
                _ => &["mail", "pay", "reserve", "ticket"],
            },
            (Ending::Failed(_), true) => &[],
            (other, _) => panic!("{uid}: {other:?}, {entries:?}"),
        };
        assert_eq!(self.kept(), expected, "{uid}: {entries:?}");
        let tickets = entries.iter().filter(|entry| entry.key == "ticket").count();
        assert_eq!(tickets, usize::from(!self.is_refused()), "{uid}: {entries:?}");
        let knows = |entry: &Entry| i64::from(entry.version) >= i64::from(started.version);
        assert!(entries.iter().all(knows), "{uid}: {entries:?}");
    }
}

/// All requests in the journal, which have ended.
async fn requests(upgrade: &Upgrade<'_>) -> BTreeMap<Uid, Request> {
    let mut entries: BTreeMap<Uid, Vec<Entry>> = BTreeMap::new();
    for entry in upgrade.shop.entries().await {
        let (uid, step) = entry.key.split_once("-order-").expect("a key");
        let (uid, key) = (uid.parse().expect("a uid"), step.to_owned());
        entries.entry(uid).or_default().push(Entry { key, ..entry });
    }
    let mut requests = BTreeMap::new();
    for FlowInfo { uid, .. } in flows(&upgrade.durable).await {
        let records = upgrade.durable.records(uid).await.expect("it is known");
        let mut events = records.into_iter().map(|stored| stored.record.event);
        let (first, last) = (events.next(), events.next_back());
        let Some(Event::Started(started)) = first else { panic!("{uid}: {first:?}") };
        let Some(Event::Ended(Ended { ending })) = last else { panic!("{uid}: {last:?}") };
        let entries = entries.remove(&uid).unwrap_or_default();
        requests.insert(uid, Request { started, ending, entries });
    }
    assert!(entries.is_empty(), "{entries:?}");
    requests
}

/// The orders that were accepted have ended, each as it should, and some of them on a node of another version.
async fn check(upgrade: &Upgrade<'_>) {
    let requests = requests(upgrade).await;
    let lost: Vec<_> = upgrade.accepted.iter().filter(|uid| !requests.contains_key(uid)).collect();
    assert!(lost.is_empty(), "{lost:?}");
    requests.iter().for_each(|(uid, request)| request.check(*uid));
    for is_refused in [false, true] {
        let handed_over = requests
            .values()
            .filter(|request| request.is_refused() == is_refused && request.was_handed_over());
        assert!(handed_over.count() > 0, "refused: {is_refused}");
    }
}
