//! Functions made at random: steps within locks, limiters, time limits and attempts, branches, loops, items. Their
//! requests crash at random records, then something ends the replay. The books of the bank say whether all that was
//! begun is done or undone, and in which order.

use std::cmp::Ordering;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_core::sim::Random;
use asyncsteps_core::{BodyResult, Error, Retry};
use asyncsteps_durable::Options;
use asyncsteps_durable::journal::record::Ending;
use asyncsteps_durable::journal::request::Resume;
use asyncsteps_executor::plan::Erased;
use asyncsteps_executor::{Cx, Returns, Step, Steps};
use asyncsteps_journal::memory::Memory;
use asyncsteps_journal::{Clock, TokioClock, Uid};

use crate::bank::{Bank, End, Entry, deals, hold, undoes};
use crate::lab::{Nothing, soon};
use crate::node::{Crash, Kind as At, run};

/// A step of a function. Its name is its place among its siblings.
#[derive(Clone)]
pub(crate) enum Node {
    /// The bank does something, and can undo it.
    Deal(Policies),
    /// So many items, of each of which the bank does something.
    Items(usize),
    /// A look-up that is repeated, and takes some time.
    Look(Duration),
    /// Fails with `TryAgain` in the first attempt of what is around it.
    Flaky,
    Pause(Duration),
    Substeps(Policies, Arc<[Self]>),
    Branches(Vec<Arc<[Self]>>),
    Repeat(u32, Arc<[Self]>),
}

#[derive(Clone, Copy)]
pub(crate) struct Policies {
    is_locked: bool,
    is_limited: bool,
    limit: Option<Duration>,
    is_tried_again: bool,
    recovers: bool,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deal(policies) => write!(f, "deal{policies:?}"),
            Self::Items(count) => write!(f, "items {count}"),
            Self::Look(time) => write!(f, "look {time:?}"),
            Self::Flaky => write!(f, "flaky"),
            Self::Pause(time) => write!(f, "pause {time:?}"),
            Self::Substeps(policies, nodes) => write!(f, "substeps{policies:?} {nodes:?}"),
            Self::Branches(branches) => write!(f, "branches {branches:?}"),
            Self::Repeat(count, nodes) => write!(f, "repeat {count} {nodes:?}"),
        }
    }
}

impl fmt::Debug for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { is_locked, is_limited, limit, is_tried_again, recovers } = *self;
        let words = [
            (is_locked, " locked"),
            (is_limited, " limited"),
            (is_tried_again, " tried again"),
            (recovers, " recovers"),
        ];
        words
            .into_iter()
            .filter(|(is_so, _)| *is_so)
            .try_for_each(|(_, word)| f.write_str(word))?;
        limit.map_or(Ok(()), |limit| write!(f, " {limit:?}"))
    }
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
/// Those of steps with items.
const ITEMS: [&str; 4] = ["a*", "b*", "c*", "d*"];
/// The step of an item.
const ITEM: &str = NAMES[0];
const ONE_ITEM: [Node; 1] = [Node::Deal(Policies {
    is_locked: false,
    is_limited: false,
    limit: None,
    is_tried_again: false,
    recovers: false,
})];
/// Branches have others, because none of them is the earlier one.
const BRANCHES: [&str; 3] = ["p", "q", "r"];
const ATTEMPTS: [&str; 3] = ["", ".2", ".3"];

/// What ends the replay; each is a program as well.
const WAYS: [&str; 7] =
    ["nothing", "cancel", "cancel later", "deadline", "drain", "the look-up fails", "panic"];

/// Steps that pass a number on, whatever the first of them takes.
type Chain<I> = Step<Bank, Nothing, I, Erased, u32>;

fn function(steps: &Steps<Bank, Nothing>, bank: &Bank) -> Returns<String> {
    let begin = steps.run("begin", async |_, ()| Ok(0)).repeatable();
    level(begin.erased(), &bank.nodes)
        .then("result", async |_, _| Ok("ended".to_owned()))
        .recorded()
        .returns()
}

fn level<I: 'static>(begin: Chain<I>, nodes: &[Node]) -> Chain<I> {
    let named = NAMES.into_iter().zip(ITEMS).zip(nodes);
    named.fold(begin, |chain, ((name, items), node)| add(chain, (name, items), node))
}

fn inside(nodes: &[Node]) -> impl FnOnce(&Steps<Bank, Nothing, u32>) -> Returns<u32> {
    move |steps| level(steps.pass().erased(), nodes).returns()
}

fn add<I: 'static>(
    chain: Chain<I>,
    (name, items): (&'static str, &'static str),
    node: &Node,
) -> Chain<I> {
    match node {
        Node::Deal(policies) => {
            under(*policies, chain.then(name, deals).recorded().undo(undoes)).erased()
        }
        Node::Items(count) => {
            let count = *count;
            chain
                .then("list", async move |_, number| Ok(vec![number; count]))
                .recorded()
                .then_each(
                    items,
                    |_, list| list,
                    |item| item.run(ITEM, deals).recorded().undo(undoes).returns(),
                )
                .at_once(2)
                .then("first of all", async |_, all: Vec<u32>| Ok(all[0]))
                .repeatable()
                .erased()
        }
        Node::Look(time) => {
            let time = *time;
            let look =
                async move |cx: &Cx<Bank, Nothing>, number| look(cx, time).await.map(|()| number);
            chain.then(name, look).repeatable().erased()
        }
        Node::Flaky => {
            let fails = async |cx: &Cx<Bank, Nothing>, number| {
                soon().await;
                if cx.key().contains('.') { Ok(number) } else { Err(Error::new("TryAgain").into()) }
            };
            chain.then(name, fails).recorded().erased()
        }
        Node::Pause(time) => chain.then_pause(name, *time).erased(),
        Node::Substeps(policies, nodes) => {
            under(*policies, chain.then_nested(name, inside(nodes))).erased()
        }
        Node::Branches(branches) => branches_of(chain, name, branches),
        Node::Repeat(count, nodes) => {
            let count = *count;
            chain
                .then_repeat(name, |iteration| {
                    level(iteration.pass().erased(), nodes)
                        .then("next", async move |cx, number| {
                            // what steps inside return is not what they take, if they recover
                            let index = cx.key().rsplit(['#', '/']).nth(1);
                            let is_last = index == Some(&*(count - 1).to_string());
                            Ok(if is_last {
                                ControlFlow::Break(number)
                            } else {
                                ControlFlow::Continue(number)
                            })
                        })
                        .repeatable()
                        .returns()
                })
                .recorded_with_input()
                .erased()
        }
    }
}

fn branches_of<I: 'static>(
    chain: Chain<I>,
    name: &'static str,
    branches: &[Arc<[Node]>],
) -> Chain<I> {
    let [p, q, r] = BRANCHES;
    match branches {
        [one, two] => chain
            .then_join(name, |all| (all.nested(p, inside(one)), all.nested(q, inside(two))))
            .then("both", async |_, (number, _)| Ok(number))
            .repeatable()
            .erased(),
        [one, two, three, ..] => chain
            .then_join(name, |all| {
                let (one, two) = (all.nested(p, inside(one)), all.nested(q, inside(two)));
                (one, two, all.nested(r, inside(three)))
            })
            .then("all", async |_, (number, _, _)| Ok(number))
            .repeatable()
            .erased(),
        [] | [_] => unreachable!("there are two or three"),
    }
}

async fn look(cx: &Cx<Bank, Nothing>, time: Duration) -> BodyResult<()> {
    tokio::time::sleep(time).await;
    assert_ne!(cx.program, "panic", "the test asked for it");
    if cx.program == "the look-up fails" { Err("NoLook".into()) } else { Ok(()) }
}

fn under<I: 'static>(
    policies: Policies,
    step: Step<Bank, Nothing, I, u32, u32>,
) -> Step<Bank, Nothing, I, u32, u32> {
    let Policies { is_locked, is_limited, limit, is_tried_again, recovers } = policies;
    let step = if is_locked { step.locked(|cx| cx.lock.clone()) } else { step };
    let step = if is_limited { step.limited(|cx| cx.place.clone()) } else { step };
    let step = limit.into_iter().fold(step, Step::timeout);
    let again = Retry::attempts(ATTEMPTS.len().try_into().expect("they are few"));
    let step = if is_tried_again { step.retry(again.on_code("TryAgain")) } else { step };
    if recovers { step.recover(async |_, _| Ok(0)) } else { step }
}

/// Makes functions.
struct Maker(Random);

impl Maker {
    /// So many levels of steps, some of which lock.
    fn nodes(&mut self, depth: u32, locks: Locks) -> Arc<[Node]> {
        (0..=self.0.below(3)).map(|_| self.node(depth, locks)).collect()
    }

    fn node(&mut self, depth: u32, locks: Locks) -> Node {
        match self.0.below(if depth == 0 { 6 } else { 14 }) {
            0..=2 => Node::Deal(self.policies(locks).0),
            3 => Node::Items(2),
            4 => Node::Look(self.time()),
            5 if self.0.one_in(4) => Node::Flaky,
            5 => Node::Pause(if self.0.one_in(4) { Duration::from_secs(15) } else { self.time() }),
            6..=9 => {
                let (policies, locks) = self.policies(locks);
                Node::Substeps(policies, self.nodes(depth - 1, locks))
            }
            10..=12 => {
                let count = 2 + self.0.below(2);
                Node::Branches((0..count).map(|_| self.nodes(depth - 1, locks)).collect())
            }
            _ => Node::Repeat(2, self.nodes(depth - 1, locks)),
        }
    }

    fn time(&mut self) -> Duration {
        Duration::from_millis(*self.0.pick(&[1, 5, 20, 100]).expect("there are some"))
    }

    /// Policies, and what steps inside may lock: the lock always before the place, so that none waits for ever.
    fn policies(&mut self, locks: Locks) -> (Policies, Locks) {
        let is_locked = locks.lock && self.0.one_in(3);
        let is_limited = locks.place && self.0.one_in(3);
        let limits = [30, 100, 400, 2_000].map(Duration::from_millis);
        let policies = Policies {
            is_locked,
            is_limited,
            limit: self.0.one_in(4).then(|| *self.0.pick(&limits).expect("there are some")),
            is_tried_again: self.0.one_in(3),
            recovers: self.0.one_in(5),
        };
        let lock = locks.lock && !is_locked && !is_limited;
        (policies, Locks { lock, place: locks.place && !is_limited })
    }
}

#[derive(Clone, Copy)]
struct Locks {
    lock: bool,
    place: bool,
}

/// What the bank has done and not undone, of a function.
struct Kept(Vec<String>);

impl Kept {
    /// Whether these steps, which are in this place, have done all that they have to do.
    fn all(&self, nodes: &[Node], place: &str) -> bool {
        every(nodes, place, |node, place| match node {
            // it may have been refused its lock
            Node::Deal(policies) if policies.recovers => true,
            Node::Deal(_) => self.0.iter().any(|deal| deal == place),
            Node::Look(_) | Node::Flaky | Node::Pause(_) => true,
            Node::Items(_) | Node::Substeps(..) | Node::Branches(_) | Node::Repeat(..) => {
                let recovers = matches!(node, Node::Substeps(policies, _) if policies.recovers);
                let is_done = |attempt: &str| {
                    let others = ATTEMPTS.into_iter().filter(|other| *other != attempt);
                    levels(node, &format!("{place}{attempt}"))
                        .all(|(at, nodes)| self.all(nodes, &at))
                        && others
                            .into_iter()
                            .all(|other| self.none_of(node, &format!("{place}{other}")))
                };
                ATTEMPTS.into_iter().any(is_done)
                    || recovers
                        && ATTEMPTS.iter().all(|it| self.none_of(node, &format!("{place}{it}")))
            }
        })
    }

    /// Whether nothing is left of these steps.
    fn none(&self, nodes: &[Node], place: &str) -> bool {
        every(nodes, place, |node, place| match node {
            Node::Deal(_) => !self.0.iter().any(|deal| deal == place),
            Node::Look(_) | Node::Flaky | Node::Pause(_) => true,
            Node::Items(_) | Node::Substeps(..) | Node::Branches(_) | Node::Repeat(..) => {
                ATTEMPTS.iter().all(|it| self.none_of(node, &format!("{place}{it}")))
            }
        })
    }

    /// Whether nothing is left of this attempt of a step with sub-steps.
    fn none_of(&self, node: &Node, place: &str) -> bool {
        levels(node, place).all(|(at, nodes)| self.none(nodes, &at))
    }
}

fn every(nodes: &[Node], place: &str, is_so: impl Fn(&Node, &str) -> bool) -> bool {
    NAMES.iter().zip(ITEMS).zip(nodes).all(|((name, items), node)| {
        let name = if matches!(node, Node::Items(_)) { items } else { name };
        is_so(node, &format!("{place}{name}"))
    })
}

/// The sub-steps of an attempt of a step, and where they are.
fn levels<'a>(node: &'a Node, place: &str) -> impl Iterator<Item = (String, &'a [Node])> {
    match node {
        Node::Substeps(_, nodes) => vec![(format!("{place}/"), &**nodes)],
        Node::Branches(branches) => {
            let branches = BRANCHES.iter().zip(branches);
            let attempt = place.rsplit('/').next().and_then(|it| it.split_once('.'));
            let attempt = attempt.map_or(String::new(), |(_, number)| format!(".{number}"));
            branches.map(|(name, nodes)| (format!("{place}/{name}{attempt}/"), &**nodes)).collect()
        }
        Node::Repeat(count, nodes) => {
            (0..*count).map(|index| (format!("{place}#{index}/"), &**nodes)).collect()
        }
        Node::Items(count) => {
            (0..*count).map(|item| (format!("{place}#{item}/"), &ONE_ITEM[..])).collect()
        }
        Node::Deal(_) | Node::Look(_) | Node::Flaky | Node::Pause(_) => Vec::new(),
    }
    .into_iter()
}

/// Which of two deals comes first; none if they are beside each other.
fn order(one: &str, other: &str) -> Option<Ordering> {
    let differ = one.split('/').zip(other.split('/')).find(|(one, other)| one != other);
    let (one_part, other_part) = differ?;
    // items are done at once
    let step = |part: &str| part.split_once('#').map(|(step, _)| step.to_owned());
    if one_part.contains('*') && step(one_part) == step(other_part) {
        return None;
    }
    let name = |part: &str| part.split(['.', '#']).next().map(str::to_owned);
    match (name(one_part), name(other_part)) {
        (Some(one), Some(other)) if one != other => {
            (!BRANCHES.contains(&&*one)).then(|| one.cmp(&other))
        }
        _ => Some(one_part.cmp(other_part)),
    }
}

/// Nothing is done after it was undone, and what was done later is undone first.
fn check_order(entries: &[Entry], case: &str) {
    let first = |name: &str, is_undo: bool| {
        entries.iter().position(|entry| entry.is_undo == is_undo && entry.name == name)
    };
    for (at, entry) in entries.iter().enumerate().filter(|(_, entry)| entry.is_undo) {
        let done = Entry { is_undo: false, ..entry.clone() };
        assert!(!entries[at..].contains(&done), "{case}: done after it was undone, {entries:?}");
        for later in
            entries.iter().filter(|it| order(&entry.name, &it.name) == Some(Ordering::Less))
        {
            let (Some(undone), Some(done), Some(later_undone)) =
                (first(&entry.name, true), first(&later.name, false), first(&later.name, true))
            else {
                continue;
            };
            let is_right = undone < done || later_undone < undone;
            assert!(
                is_right,
                "{case}: {} is undone before {}, {entries:?}",
                entry.name, later.name
            );
        }
    }
}

/// Prepares a process in which the replay ends in this way.
async fn prepare(way: &'static str, bank: &Bank, (journal, uid): (&Memory, Uid)) -> Bank {
    let next = bank.process(way, None);
    let (durable, executor) = next.serve(journal.clone());
    match way {
        // it may have ended before
        "cancel" => _ = durable.cancel(uid, "the test").await.expect("it is known"),
        "cancel later" => {
            actix::spawn(async move {
                tokio::time::sleep(Duration::from_millis(32)).await;
                durable.cancel(uid, "the test").await.expect("it is known");
            });
        }
        "drain" => {
            let node = durable.start(&executor).await.expect("the journal gives a lease");
            tokio::time::sleep(Duration::from_millis(25)).await;
            node.stop().await;
        }
        "nothing" => [&next.lock, &next.place].into_iter().for_each(|lock| hold(lock, HELD)),
        _ => {}
    }
    next
}

/// How long others hold the locks when a process begins.
const HELD: Duration = Duration::from_millis(60);

/// How a request came to its end.
#[derive(PartialEq, Eq)]
enum Came {
    ByItself,
    /// It was paused, because a look-up failed, and then resumed.
    Resumed,
}

/// Makes a function, crashes its request and has the replay ended.
async fn request(seed: u64) -> Came {
    let mut maker = Maker(Random::new(seed));
    let nodes =
        maker.nodes(1 + u32::try_from(seed % 3).unwrap_or(0), Locks { lock: true, place: true });
    let way = *maker.0.pick(&WAYS).expect("there are some");
    let crashes: Vec<_> = (0..1 + maker.0.below(3))
        .map(|_| Crash {
            append: 1 + maker.0.below(12),
            kind: if maker.0.one_in(2) { At::BeforeStored } else { At::AfterStored },
        })
        .collect();
    let case = format!("seed {seed}, {way}, {crashes:?}, {nodes:?}");
    let bank = Bank::new(function).with_nodes(nodes);
    let journal = bank.journal();
    let deadline =
        (way == "deadline").then(|| TokioClock::start().now().after(Duration::from_secs(61)));
    let options = deadline.into_iter().fold(Options::default(), Options::deadline);
    let uid = bank.submit(&journal, options).await;
    for (number, crash) in crashes.into_iter().enumerate() {
        let way = if number == 0 { "nothing" } else { way };
        let next = prepare(way, &bank, (&journal, uid)).await;
        // one that waits for an operator does not crash
        let crashed = next.crash(&journal, uid, crash);
        let _ = tokio::time::timeout(Duration::from_secs(300), crashed).await;
    }
    let mut end = prepare(way, &bank, (&journal, uid)).await.replay(&journal, uid).await;
    let reason = if let End::Paused(reason) = &end { Some(reason.clone()) } else { None };
    if let Some(reason) = &reason {
        let is_changed = ["the look-up fails", "panic"].contains(&way);
        assert!(is_changed, "{case}: {reason}, {:?}", bank.entries());
        assert!(reason.contains("test.bank:1:order"), "{case}: {reason}");
        let (durable, _) = bank.serve(journal.clone());
        durable.resume(uid, Resume::Continue).await.expect("it is paused");
        end = bank.process("nothing", None).replay(&journal, uid).await;
    }
    let (kept, entries) = (Kept(bank.kept()), bank.entries());
    let is_right = match &end {
        End::Ended(Ending::Completed(_)) => kept.all(&bank.nodes, "order-"),
        End::Ended(_) => kept.none(&bank.nodes, "order-"),
        End::Paused(_) => false,
    };
    assert!(is_right, "{case}: {end:?}, {reason:?}, {entries:?}");
    check_order(&entries, &case);
    if reason.is_none() { Came::ByItself } else { Came::Resumed }
}

#[test]
fn random_functions_do_or_undo_what_they_have_begun() {
    // the long run of the tests takes more
    let count = if std::env::var_os("LONG_TESTS").is_some() { 20_000 } else { 1_000 };
    run(async move {
        let mut came = Vec::new();
        for seed in 0..count {
            came.push(request(seed).await);
        }
        let number = |how: &Came| came.iter().filter(|it| *it == how).count();
        let (all, by_itself) = (came.len(), number(&Came::ByItself));
        assert!(by_itself > all / 2, "{by_itself} of {all} ended by themselves");
    });
}
