//! Nodes that use a store at once, checked against a model.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_cluster::Error;
use asyncsteps_cluster::store::{
    ClusterNodeId, LockId, LockStore, Memory, Postgres, Quota, QuotaShare, Taken,
};
use asyncsteps_core::sim::Random;
use asyncsteps_core::sim::linear::History;
use futures_util::future::join_all;
use tokio::task::yield_now;

use super::model::{Answer, Asked, Locks};
use super::world::{run, with_server};

const SEEDS: u64 = 12;
const NODES: u64 = 4;
const LOCKS: usize = 2;
const OPERATIONS: usize = 24;

/// Neither a lease nor a period ends in a run.
const LONG: Duration = Duration::from_secs(3600);

const MODEL: Locks = Locks { total: 5, max: 6 };

#[test]
fn a_store_in_memory_is_explained_by_the_model() {
    let memory = Memory::default();
    for seed in 0..4 * SEEDS {
        run(check(&[&memory], seed));
    }
}

#[test]
fn a_store_in_a_database_is_explained_by_the_model() {
    with_server(async |server| {
        // one of them through a pooler
        _ = server.pool("session", 20);
        let connect = |config| Postgres::connect(config, Default::default(), "histories");
        let ways = [connect(server.direct()).await, connect(server.config()).await];
        let ways = ways.map(|way| way.expect("a store"));
        for seed in 0..SEEDS {
            check(&[&ways[0], &ways[1]], seed).await;
        }
    });
}

/// Runs some nodes on locks of their own, by several ways to one store.
async fn check(ways: &[&dyn LockStore], seed: u64) {
    let key: Arc<str> = seed.to_string().into();
    let locks = ["one", "other"].map(|name| LockId { name, key: Arc::clone(&key) });
    let quota = Quota { name: "quota".to_owned(), key, total: MODEL.total, period: LONG };
    let history = RefCell::new(History::new());
    let node =
        |way| Node { way, locks: &locks, quota: &quota, history: &history, random: Random::new(0) };
    let several = ways.iter().cycle().zip(seed * NODES..(seed + 1) * NODES);
    join_all(several.map(|(way, seed)| Node { random: Random::new(seed), ..node(*way) }.run()))
        .await;
    let mut last = node(ways[0]);
    let id = last.register().await;
    assert_eq!(last.share(id, 0).await, MODEL.total, "one node alone has all units");
    if let Err(error) = history.borrow().check(&MODEL) {
        panic!("with seed {seed}, {error}");
    }
}

/// A node of one seed.
struct Node<'a> {
    way: &'a dyn LockStore,
    locks: &'a [LockId; LOCKS],
    quota: &'a Quota,
    history: &'a RefCell<History<Locks>>,
    random: Random,
}

impl Node<'_> {
    async fn run(mut self) {
        let mut node = self.register().await;
        let (mut had, mut units) = (Vec::new(), 0);
        for _ in 0..OPERATIONS {
            match self.random.below(12) {
                0..5 => had.extend(self.take(node).await),
                5..9 if !had.is_empty() => {
                    // at times again
                    let (lock, epoch) = had[self.random.below(had.len())];
                    let asked = self.way.give_back(&self.locks[lock], epoch);
                    self.ask(Asked::GiveBack(lock, epoch), asked, |()| Answer::Done).await;
                }
                9 => units = self.share(node, units).await,
                10 => {
                    let asked = self.way.return_share(self.quota, node);
                    self.ask(Asked::ReturnShare(node), asked, |()| Answer::Done).await;
                    units = 0;
                }
                11 if self.random.one_in(3) => {
                    self.leave(node).await;
                    (node, units) = (self.register().await, 0);
                }
                _ => {
                    let asked = self.way.count(&self.locks[0], MODEL.max, LONG);
                    let counted = |left: Option<Duration>| Answer::Counted(left.is_none());
                    self.ask(Asked::Count, asked, counted).await;
                }
            }
        }
        self.leave(node).await;
    }

    async fn register(&mut self) -> ClusterNodeId {
        self.ask(Asked::Register, self.way.register(LONG), Answer::Registered).await
    }

    async fn leave(&mut self, node: ClusterNodeId) {
        self.ask(Asked::Leave(node), self.way.leave(node), |()| Answer::Done).await;
    }

    /// Takes a lock; returns it with its number.
    async fn take(&mut self, node: ClusterNodeId) -> Option<(usize, u64)> {
        let lock = self.random.below(LOCKS);
        let asked = self.way.take(&self.locks[lock], node);
        let taken = self.ask(Asked::Take(lock, node), asked, Answer::Taken).await;
        if let Taken::Epoch(epoch) = taken { Some((lock, epoch)) } else { None }
    }

    /// Asks for a share; returns its units.
    async fn share(&mut self, node: ClusterNodeId, has: u32) -> u32 {
        let asked = self.way.share(self.quota, node, has);
        let units = |share: Option<QuotaShare>| Answer::Share(share.map(|share| share.units));
        let share = self.ask(Asked::Share(node, has), asked, units).await;
        share.map_or(0, |share| share.units)
    }

    /// Asks some turns after it is recorded, and records the answer some turns after it came.
    async fn ask<T: Copy>(
        &mut self,
        asked: Asked,
        request: impl Future<Output = Result<T, Error>>,
        recorded: impl FnOnce(T) -> Answer,
    ) -> T {
        let invoked = self.history.borrow_mut().invoke(asked);
        self.turns().await;
        let answer = request.await.expect("it answers");
        self.turns().await;
        self.history.borrow_mut().answer(invoked, recorded(answer));
        answer
    }

    async fn turns(&mut self) {
        for _ in 0..self.random.below(4) {
            yield_now().await;
        }
    }
}
