//! Nodes that claim and write at once, against a model.

use std::cell::RefCell;

use asyncsteps_core::sim::Random;
use asyncsteps_core::sim::linear::{History, Invoked};
use asyncsteps_journal::request::{
    Append, Claim, Condition, Disposition, FirstOwner, FlowState, Loaded, Program,
};
use asyncsteps_journal::{Epoch, Error, Incarnation, Journal, NotWritten, Repeat, Uid};
use futures_util::future::{join, join_all};
use tokio::task::yield_now;

use super::model::{Answer, Asked, Flows, Then};
use super::world::{completed, done, kill, node, program, submit, uid};

const SEEDS: u64 = 12;
const NODES: usize = 4;
const FLOWS: usize = 3;
const OPERATIONS: usize = 20;

pub(super) async fn owners_at_once_are_explained_by_a_model(journal: &dyn Journal) {
    for seed in 0..SEEDS {
        check(journal, &[journal], seed).await;
    }
}

/// Runs some nodes on flows of their own kind, by several ways to one journal. Flows and nodes are made by a way
/// that is sure to answer.
pub(super) async fn check(sure: &dyn Journal, ways: &[&dyn Journal], seed: u64) {
    let template = format!("demo.shop:order_{seed}");
    let mut flows = Vec::new();
    for _ in 0..FLOWS {
        let mut submit = submit(FirstOwner::Any);
        submit.started.template.clone_from(&template);
        flows.push(submit.uid);
        sure.submit(submit).await.unwrap();
    }
    let programs = vec![Program { template, ..program(1, &[]) }];
    let history = RefCell::new(History::new());
    let run = |way| Run { sure, way, flows: &flows, programs: &programs, history: &history };
    let ways = ways.iter().cycle().take(NODES);
    let nodes =
        ways.zip(seed * NODES as u64..).map(|(way, seed)| run(*way).node(Random::new(seed)));
    join_all(nodes).await;
    for flow in 0..FLOWS {
        run(sure).load(flow, &mut Random::new(seed)).await;
    }
    let history = history.into_inner();
    if let Err(error) = history.check(&Flows(FLOWS)) {
        panic!("with seed {seed}, {error}");
    }
}

/// A node of one seed.
#[derive(Clone, Copy)]
struct Run<'a> {
    sure: &'a dyn Journal,
    way: &'a dyn Journal,
    flows: &'a [Uid],
    programs: &'a [Program],
    history: &'a RefCell<History<Flows>>,
}

/// A flow that a node has, or had.
#[derive(Clone, Copy)]
struct Had {
    flow: usize,
    epoch: u64,
    next: u64,
}

impl Run<'_> {
    async fn node(self, mut random: Random) {
        let mut name = node(self.sure).await;
        let mut had: Vec<Had> = Vec::new();
        for _ in 0..OPERATIONS {
            let choice = random.below(had.len());
            match random.below(10) {
                0..3 => had.extend(self.claim(name, &mut random).await),
                3 if random.one_in(3) => {
                    self.die(name, &mut random).await;
                    name = node(self.sure).await;
                }
                3 => _ = self.load(random.below(FLOWS), &mut random).await,
                _ if had.is_empty() => had.extend(self.claim(name, &mut random).await),
                _ => match self.append(had[choice], &mut random).await {
                    Some(Answer::Written) => had[choice].next += 1,
                    // what is lost is tried again at times
                    Some(Answer::Stale(_)) if random.one_in(2) => {}
                    _ => _ = had.swap_remove(choice),
                },
            }
        }
    }

    /// Claims, and loads what was given.
    async fn claim(&self, node: Incarnation, random: &mut Random) -> Vec<Had> {
        let limit = 1 + random.below(2);
        let (programs, ticket) = (self.programs.to_vec(), uid());
        let claim = Claim { node, ticket, programs, limit, awaited: Vec::new(), suspects: 1 };
        let invoked = self.invoke(Asked::Claim(node), random).await;
        let given = answered(|| self.way.claim(claim.clone()), || true).await;
        let number = |uid| self.flows.iter().position(|flow| *flow == uid).expect("it is known");
        let given = given.expect("it is repeated").map(|given| {
            given.iter().map(|it| (number(it.uid), it.epoch.get())).collect::<Vec<_>>()
        });
        let flows = given.clone().unwrap_or_default();
        self.answer(invoked, given.map_or_else(failed, Answer::Given), random).await;
        let mut had = Vec::new();
        for (flow, epoch) in flows {
            let next = self.load(flow, random).await;
            had.push(Had { flow, epoch, next });
        }
        had
    }

    /// Appends a record, at times twice at once. Without an answer it may have been written.
    async fn append(&self, had: Had, random: &mut Random) -> Option<Answer> {
        let then = match random.below(12) {
            0 => Then::End,
            1..4 => Then::Release,
            _ => Then::Keep,
        };
        let entry = Append {
            uid: self.flows[had.flow],
            epoch: Epoch::new(had.epoch),
            version: 1,
            first: had.next,
            records: vec![if then == Then::End { completed() } else { done("step") }],
            replaces: Vec::new(),
            takes: Vec::new(),
            seen: 0,
            condition: Condition::None,
            then: if then == Then::Release { Disposition::Release } else { Disposition::Keep },
            is_awaited: random.one_in(2),
        };
        let asked = Asked::Append(had.flow, had.epoch, had.next, then);
        let one = self.send(asked.clone(), entry.clone(), Random::new(random.number()));
        if random.one_in(5) {
            let again = self.send(asked, entry, Random::new(random.number()));
            let (one, again) = join(one, again).await;
            return one.filter(|one| again.as_ref() == Some(one));
        }
        one.await
    }

    async fn send(&self, asked: Asked, entry: Append, mut random: Random) -> Option<Answer> {
        let invoked = self.invoke(asked, &mut random).await;
        let mut patience = Random::new(random.number());
        let send = || self.way.append(vec![entry.clone()]);
        let answers = answered(send, || !patience.one_in(3)).await?;
        let answer = match answers.map(|mut answers| answers.remove(0)) {
            Ok(Ok(_)) => Answer::Written,
            Ok(Err(NotWritten::Stale { epoch })) => Answer::Stale(epoch.get()),
            Ok(Err(other)) => Answer::Failed(other.to_string()),
            Err(error) => failed(error),
        };
        self.answer(invoked, answer.clone(), &mut random).await;
        Some(answer)
    }

    /// Loads a flow, and returns the number of its next record. Only for its owner, the flow and its records are
    /// surely of the same moment.
    async fn load(&self, flow: usize, random: &mut Random) -> u64 {
        let head = self.invoke(Asked::Flow(flow), random).await;
        let records = self.invoke(Asked::Records(flow), random).await;
        let loaded = answered(|| self.way.load(self.flows[flow]), || true).await;
        let Loaded { flow, records: stored, .. } = loaded.expect("it is repeated").unwrap();
        let ids = stored.iter().map(|it| (it.id.epoch.get(), it.id.sequence)).collect::<Vec<_>>();
        let next = ids.len() as u64;
        let has_ended = flow.state == FlowState::Ended;
        self.answer(head, Answer::Flow(flow.epoch.get(), flow.owner, has_ended), random).await;
        self.answer(records, Answer::Records(ids), random).await;
        next
    }

    async fn die(&self, node: Incarnation, random: &mut Random) {
        let invoked = self.invoke(Asked::Die(node), random).await;
        kill(self.sure, node).await;
        self.answer(invoked, Answer::Died, random).await;
    }

    /// Records it, some turns before it is asked.
    async fn invoke(&self, asked: Asked, random: &mut Random) -> Invoked {
        let invoked = self.history.borrow_mut().invoke(asked);
        turns(random).await;
        invoked
    }

    /// Records it, some turns after it was answered.
    async fn answer(&self, invoked: Invoked, answer: Answer, random: &mut Random) {
        turns(random).await;
        self.history.borrow_mut().answer(invoked, answer);
    }
}

async fn turns(random: &mut Random) {
    for _ in 0..random.below(4) {
        yield_now().await;
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is called with what a result has")]
fn failed(error: Error) -> Answer {
    Answer::Failed(error.to_string())
}

/// Repeats a request until it is answered, or nobody has the patience.
async fn answered<'a, T>(
    ask: impl Fn() -> asyncsteps_journal::Answer<'a, T>,
    mut is_repeated: impl FnMut() -> bool,
) -> Option<Result<T, Error>> {
    loop {
        match ask().await {
            Err(error) if error.repeat() != Repeat::Never => {
                if !is_repeated() {
                    return None;
                }
            }
            answer => return Some(answer),
        }
    }
}
