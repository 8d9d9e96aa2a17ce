//! Functions made at random: steps within locks, limiters, time limits and attempts, branches, loops, items, scopes. Their
//! requests crash at random records, then something ends the replay. The books of the bank say whether all that was
//! begun is done or undone, and in which order.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_core::sim::Random;
use asyncsteps_core::{BodyResult, Error, Retry};
use asyncsteps_durable::journal::record::Ending;
use asyncsteps_durable::journal::request::Resume;
use asyncsteps_durable::{Options, Recorded, Repeatable};
use asyncsteps_executor::service::{Kind, Step};
use asyncsteps_executor::{Cx, Next, Returns, Steps};
use asyncsteps_journal::memory::Memory;
use asyncsteps_journal::{Clock, Uid};

use crate::bank::{Bank, End, Entry, deal, hold};
use crate::lab::{Nothing, soon};
use crate::node::{Crash, Kind as At, TestClock, run};

/// A step of a function. Its name is its place among its siblings.
#[derive(Clone)]
pub(crate) enum Node {
    /// The bank does something, and can undo it.
    Deal(Policies),
    /// So many items, of each of which the bank does something.
    Items(u32),
    /// A look-up that is repeated, and takes some time.
    Look(Duration),
    /// Fails with `TryAgain` in the first attempt of what is around it.
    Flaky,
    Pause(Duration),
    Substeps(Policies, Arc<[Self]>),
    Scope(Arc<[Self]>),
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
            Self::Scope(nodes) => write!(f, "scope {nodes:?}"),
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
/// Branches have others, because none of them is the earlier one.
const BRANCHES: [&str; 3] = ["p", "q", "r"];
const ATTEMPTS: [&str; 3] = ["", ".2", ".3"];

/// What ends the replay; each is a program as well.
const WAYS: [&str; 7] =
    ["nothing", "cancel", "cancel later", "deadline", "drain", "the look-up fails", "panic"];

fn function(asi: &mut Steps<Bank, Nothing>) -> Returns<String> {
    let nodes = Arc::clone(&asi.cx().nodes);
    let _ = level(asi, &nodes);
    asi.run("result", async |_, ()| Ok("ended".to_owned())).recorded().into()
}

fn level(asi: &mut Steps<Bank, Nothing>, nodes: &Arc<[Node]>) -> Returns<()> {
    for (name, node) in NAMES.into_iter().zip(&**nodes) {
        add(asi, name, node);
    }
    asi.run("end", async |_, ()| Ok(())).repeatable().into()
}

fn add(asi: &mut Steps<Bank, Nothing>, name: &'static str, node: &Node) {
    let bank = asi.cx();
    match node.clone() {
        Node::Deal(policies) => under(policies, &bank, deal!(asi, name)),
        Node::Items(count) => {
            let each = async |cx: &Cx<Bank, Nothing>, _| {
                soon().await;
                cx.deal(cx.key());
                Ok(())
            };
            asi.each(name, 0..count, 2, each).recorded().undo(async move |cx, _| {
                soon().await;
                (0..count).for_each(|item| cx.undo(&format!("{}#{item}", cx.key())));
                Ok(())
            });
        }
        Node::Look(time) => {
            asi.run(name, async move |cx, ()| look(cx, time).await).repeatable();
        }
        Node::Flaky => {
            let fails = async |cx: &Cx<Bank, Nothing>, ()| {
                soon().await;
                if cx.key().contains('.') { Ok(()) } else { Err(Error::new("TryAgain").into()) }
            };
            asi.run(name, fails).recorded();
        }
        Node::Pause(time) => _ = asi.pause(name, time),
        Node::Substeps(policies, nodes) => {
            let step = asi.substeps(name, move |asi, ()| level(asi, &nodes));
            under(policies, &bank, step);
        }
        Node::Scope(nodes) => _ = asi.scope(name, move |asi, ()| level(asi, &nodes)),
        Node::Branches(branches) => {
            asi.parallel(name, move |parallel| {
                for (name, nodes) in BRANCHES.into_iter().zip(branches.clone()) {
                    parallel.substeps(name, move |asi, ()| level(asi, &nodes));
                }
            });
        }
        Node::Repeat(count, nodes) => {
            let iteration = move |asi: &mut Steps<Bank, Nothing>, index: u32| {
                let _ = level(asi, &nodes);
                let next = if index == count { Next::Break(()) } else { Next::Continue(index + 1) };
                asi.run("next", async move |_, ()| Ok(next)).recorded().into()
            };
            asi.repeat(name, 1, iteration).recorded();
        }
    }
}

async fn look(cx: &Cx<Bank, Nothing>, time: Duration) -> BodyResult<()> {
    tokio::time::sleep(time).await;
    assert_ne!(cx.program, "panic", "the test asked for it");
    if cx.program == "the look-up fails" { Err("NoLook".into()) } else { Ok(()) }
}

fn under<K: Kind<()>>(policies: Policies, bank: &Bank, step: Step<'_, Bank, Nothing, (), (), K>) {
    let Policies { is_locked, is_limited, limit, is_tried_again, recovers } = policies;
    let step = if is_locked { step.locked(&bank.lock) } else { step };
    let step = if is_limited { step.limited(&bank.place) } else { step };
    let step = limit.into_iter().fold(step, Step::timeout);
    let again = Retry::attempts(ATTEMPTS.len().try_into().expect("they are few"));
    let step = if is_tried_again { step.retry(again.on_code("TryAgain")) } else { step };
    if recovers {
        step.recover(async |_, _| Ok(()));
    }
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
            10 => Node::Scope(self.nodes(depth - 1, locks)),
            11 | 12 => {
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
            Node::Deal(_) | Node::Items(_) => deals(node, place).all(|deal| self.0.contains(&deal)),
            Node::Look(_) | Node::Flaky | Node::Pause(_) => true,
            Node::Substeps(..) | Node::Scope(_) | Node::Branches(_) | Node::Repeat(..) => {
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

    /// Whether nothing is left of these steps but what was in a scope that has ended.
    fn none(&self, nodes: &[Node], place: &str) -> bool {
        every(nodes, place, |node, place| match node {
            Node::Deal(_) | Node::Items(_) => {
                !deals(node, place).any(|deal| self.0.contains(&deal))
            }
            Node::Look(_) | Node::Flaky | Node::Pause(_) => true,
            Node::Substeps(..) | Node::Scope(_) | Node::Branches(_) | Node::Repeat(..) => {
                ATTEMPTS.iter().all(|it| self.none_of(node, &format!("{place}{it}")))
            }
        })
    }

    /// Whether nothing is left of this attempt of a step with sub-steps.
    fn none_of(&self, node: &Node, place: &str) -> bool {
        let is_scope = matches!(node, Node::Scope(_));
        levels(node, place)
            .all(|(at, nodes)| self.none(nodes, &at) || is_scope && self.all(nodes, &at))
    }
}

fn every(nodes: &[Node], place: &str, is_so: impl Fn(&Node, &str) -> bool) -> bool {
    NAMES.iter().zip(nodes).all(|(name, node)| is_so(node, &format!("{place}{name}")))
}

/// What the bank does for a step, by name.
fn deals(node: &Node, place: &str) -> impl Iterator<Item = String> {
    let items = if let Node::Items(count) = node { *count } else { 0 };
    let items = (0..items).map(move |item| format!("#{item}"));
    let itself = matches!(node, Node::Deal(_)).then(String::new);
    itself.into_iter().chain(items).map(move |item| format!("{place}{item}"))
}

/// The sub-steps of an attempt of a step, and where they are.
fn levels<'a>(node: &'a Node, place: &str) -> impl Iterator<Item = (String, &'a [Node])> {
    match node {
        Node::Substeps(_, nodes) | Node::Scope(nodes) => vec![(format!("{place}/"), &**nodes)],
        Node::Branches(branches) => {
            let branches = BRANCHES.iter().zip(branches);
            let attempt = place.rsplit('/').next().and_then(|it| it.split_once('.'));
            let attempt = attempt.map_or(String::new(), |(_, number)| format!(".{number}"));
            branches.map(|(name, nodes)| (format!("{place}/{name}{attempt}/"), &**nodes)).collect()
        }
        Node::Repeat(count, nodes) => {
            (0..*count).map(|index| (format!("{place}#{index}/"), &**nodes)).collect()
        }
        Node::Deal(_) | Node::Items(_) | Node::Look(_) | Node::Flaky | Node::Pause(_) => Vec::new(),
    }
    .into_iter()
}

/// Which of two deals comes first; none if they are beside each other.
fn order(one: &str, other: &str) -> Option<Ordering> {
    let differ = one.split('/').zip(other.split('/')).find(|(one, other)| one != other);
    let (one_part, other_part) = differ?;
    // items are done at once
    let are_items = |part: &str, whole: &str| part.contains('#') && whole.ends_with(part);
    if are_items(one_part, one) && are_items(other_part, other) {
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
    /// It was paused, because a branch holds a lock until the request ends, and another one needs that to come to what
    /// it has begun. An operator has a step undone.
    Stuck,
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
        (way == "deadline").then(|| TestClock::start().now().after(Duration::from_secs(61)));
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
        if way.starts_with("cancel") && reason.contains(NOT_REACHED) {
            return Came::Stuck;
        }
        assert!(is_changed, "{case}: {reason}, {:?}", bank.entries());
        assert!(reason.contains("test.bank:1:order"), "{case}: {reason}");
        let (durable, _) = bank.serve(journal.clone());
        durable.resume(uid, Resume::Continue).await.expect("it is paused");
        end = bank.process("nothing", None).replay(&journal, uid).await;
        if matches!(&end, End::Paused(reason) if reason.contains(NOT_REACHED)) {
            return Came::Stuck;
        }
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

const NOT_REACHED: &str = "was begun before a crash and has not been reached since";

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
        let stuck = number(&Came::Stuck);
        assert!(stuck * 200 <= all, "{stuck} of {all} wait for an operator");
    });
}
