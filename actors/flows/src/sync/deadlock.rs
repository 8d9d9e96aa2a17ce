//! Deadlocks among mutexes and calls (FTN12 §1.11.5): found when they come about, reported, and
//! resolved.
//!
//! A wait is remembered while it holds up others: while its flow, or a branch around it, has a lock,
//! or while such a flow waits for it because it called it. It waits for the holders of its mutex, for
//! all of them if several may be inside, or for the flow that it called; a holder cannot go on while
//! it waits itself or a branch below it does. Each new wait looks whether it closes a
//! cycle of waits older than itself. If it does, the deadlock is reported, and the new wait fails
//! with `InternalError`, unless a time limit (`set_timeout`) ends one of the waits of the cycle.
//!
//! Locks taken outside of flows, with [`Mutex::lock`](super::Mutex::lock) or by message, have an
//! owner that is supposed to go on; the same goes for waits for a throttle, a future or another
//! flow.
//!
//! Nothing is stopped in order to look: what was found counts only if all of it is still there
//! afterwards. Waits of a deadlock do not move, so then it was there at one time.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

use asyncsteps::{AsyncSteps, Error, FlowId, Identity, Place, codes};
use dashmap::{DashMap, Entry};
use smallvec::SmallVec;

use super::lock::{Label, guarded};

/// How many of the last deadlocks are kept for consoles.
const KEPT: usize = 16;

static ENABLED: AtomicBool = AtomicBool::new(true);
static FOUND: AtomicU64 = AtomicU64::new(0);
static LAST: Mutex<VecDeque<Arc<Deadlock>>> = Mutex::new(VecDeque::new());

/// The waits that hold up others, by flow.
static WAITS: LazyLock<DashMap<FlowId, Waits>> = LazyLock::new(DashMap::new);

/// The waits of one flow: one, as long as it has no branches.
type Waits = SmallVec<[Arc<Wait>; 1]>;

/// Those inside of a mutex.
pub(super) type Holders = SmallVec<[Identity; 2]>;

/// Switches detection on, as it is at the start, or off for the waits to come.
pub fn set_enabled(enabled: bool) {
    ENABLED.store(enabled, Ordering::Relaxed);
}

/// Whether deadlocks are detected.
#[must_use]
pub fn is_enabled() -> bool {
    ENABLED.load(Ordering::Relaxed)
}

/// How many deadlocks were found since the start of the process.
#[must_use]
pub fn count() -> u64 {
    FOUND.load(Ordering::Relaxed)
}

/// The last deadlocks found, up to 16, the oldest first.
#[must_use]
pub fn last() -> Vec<Arc<Deadlock>> {
    guarded(&LAST).iter().cloned().collect()
}

/// The waits that hold up others just now, in no particular order.
#[must_use]
pub fn watched() -> Vec<Waiting> {
    WAITS
        .iter()
        .flat_map(|waits| waits.iter().map(|wait| Waiting::of(wait)).collect::<Vec<_>>())
        .collect()
}

/// A cycle of waits, as it was found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Deadlock {
    /// The waits: each for a lock of the next one or of a branch around that, the last for one of
    /// the first. The first is the newest, which closed the cycle.
    pub waits: Vec<Waiting>,
    /// Whether it was left to a time limit instead of failing the newest wait.
    pub left_to_limit: bool,
}

/// One wait of a [`Deadlock`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Waiting {
    /// Who waits.
    pub identity: Identity,
    /// The step that waits.
    pub place: Place,
    /// What it waits for.
    pub target: Target,
}

/// What a [`Waiting`] step waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// A lock that other flows have.
    Mutex {
        /// Its name, empty if it has none.
        name: &'static str,
        /// Its key, empty if it has none.
        key: Arc<str>,
    },
    /// The answer to a call within the process.
    Call {
        /// The function, with interface and version.
        function: Arc<str>,
    },
}

impl Target {
    /// What the flow that is waited for does with it.
    fn link(&self) -> &'static str {
        match self {
            Self::Mutex { .. } => "held by",
            Self::Call { .. } => "carried out by",
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mutex { name, key } => Label { kind: "mutex", name, key }.fmt(f),
            Self::Call { function } => write!(f, "the call of {function}"),
        }
    }
}

/// Who waits.
struct Who(Identity);

/// What for.
struct What<'a>(&'a Waiting);

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "flow {}", self.0.flow)?;
        if self.0.branch > 0 {
            write!(f, " branch {}", self.0.branch)?;
        }
        Ok(())
    }
}

impl fmt::Display for What<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Waiting { target, place, .. } = self.0;
        write!(f, "{target} ({place})")
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} waits for {}", Who(self.identity), What(self))
    }
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, others @ ..] = &*self.waits else { return f.write_str("deadlock") };
        write!(f, "deadlock: {first}, ")?;
        let mut link = first.target.link();
        for wait in others {
            write!(f, "{link} {} that waits for {}, ", Who(wait.identity), What(wait))?;
            link = wait.target.link();
        }
        write!(f, "{link} {}", Who(first.identity))
    }
}

impl std::error::Error for Deadlock {}

/// Hung on a flow that carries out a call of one whose waits hold up others: so do its own.
pub(super) struct Awaited;

/// What is waited for, as seen from here.
pub(super) trait Contended: Send + Sync {
    /// Those that are waited for; `None` if one of them is no flow, and so is supposed to go on.
    fn holders(&self) -> Option<Holders>;
    fn target(&self) -> Target;
}

/// A wait that holds up others.
pub(super) struct Wait {
    identity: Identity,
    /// The branches that cannot go on meanwhile, its own one first.
    lineage: SmallVec<[u32; 2]>,
    /// Whether a time limit ends it.
    limited: bool,
    place: Place,
    target: Arc<dyn Contended>,
    /// Counts waits in the order of their coming, over all mutexes; set when it joins a queue.
    number: OnceLock<u64>,
}

/// Keeps a wait in mind until it is dropped.
///
/// It is made and dropped only while the mutex is locked, so that a wait is remembered as long as
/// it is in the queue. No other lock is taken inside of the table of waits.
pub(super) struct Watch(Arc<Wait>);

impl Wait {
    /// A wait in the running step, for the step at `place`.
    pub(super) fn new(
        asi: &AsyncSteps,
        identity: Identity,
        place: Place,
        target: Arc<dyn Contended>,
    ) -> Self {
        Self {
            identity,
            lineage: asi.lineage().collect(),
            limited: asi.is_limited(),
            place,
            target,
            number: OnceLock::new(),
        }
    }

    /// Remembers the wait from now on.
    pub(super) fn watch(self: &Arc<Self>) -> Watch {
        static COUNT: Mutex<u64> = Mutex::new(0);
        // counted and seen in one: whoever has a greater number finds this wait
        let mut count = guarded(&COUNT);
        *count += 1;
        self.number.get_or_init(|| *count);
        WAITS.entry(self.identity.flow).or_default().push(Arc::clone(self));
        drop(count);
        Watch(Arc::clone(self))
    }

    fn number(&self) -> u64 {
        self.number.get().copied().unwrap_or(u64::MAX)
    }

    /// Whether each holder of the mutex has a flow that waits somewhere: mostly one has not, and
    /// there is nothing to look for.
    fn may_be_stuck(&self) -> bool {
        let holders = self.target.holders();
        holders.is_some_and(|holders| holders.iter().all(|holder| WAITS.contains_key(&holder.flow)))
    }

    fn is_watched(self: &Arc<Self>) -> bool {
        let waits = WAITS.get(&self.identity.flow);
        waits.is_some_and(|waits| waits.iter().any(|wait| Arc::ptr_eq(wait, self)))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Entry::Occupied(mut waits) = WAITS.entry(self.0.identity.flow) {
            waits.get_mut().retain(|wait| !Arc::ptr_eq(wait, &self.0));
            if waits.get().is_empty() {
                waits.remove();
            }
        }
    }
}

/// What a new wait has to do.
pub(super) enum Verdict {
    /// Wait.
    MayGoOn,
    /// Fail with this.
    Deadlock(Error),
}

/// Looks whether a new wait closes a cycle.
pub(super) fn look(wait: &Arc<Wait>) -> Verdict {
    if !wait.may_be_stuck() {
        return Verdict::MayGoOn;
    }
    let Some(cycle) = Graph::cycle(wait, |_| true) else { return Verdict::MayGoOn };
    // if each cycle has a wait that ends by itself, all of them will go on
    let hard = if wait.limited { None } else { Graph::cycle(wait, |wait| !wait.limited) };
    let left_to_limit = hard.is_none();
    let waits = hard.unwrap_or(cycle).iter().map(|wait| Waiting::of(wait)).collect();
    let deadlock = Deadlock { waits, left_to_limit };
    let text = deadlock.to_string();
    report(deadlock.clone(), &text);
    if left_to_limit {
        return Verdict::MayGoOn;
    }
    // with a cause it is not an error that the function chose: its caller is not told the places
    let error = Error::with_info(codes::INTERNAL_ERROR, text);
    Verdict::Deadlock(error.with_cause(deadlock))
}

fn report(deadlock: Deadlock, text: &str) {
    if deadlock.left_to_limit {
        tracing::warn!(deadlock = text, "left to a time limit");
    } else {
        tracing::error!(deadlock = text, "the newest wait fails");
    }
    FOUND.fetch_add(1, Ordering::Relaxed);
    let mut last = guarded(&LAST);
    if last.len() == KEPT {
        last.pop_front();
    }
    last.push_back(Arc::new(deadlock));
}

impl Waiting {
    fn of(wait: &Wait) -> Self {
        Self { identity: wait.identity, place: wait.place, target: wait.target.target() }
    }
}

/// The waits that a wait may have to wait for, itself first.
struct Graph {
    nodes: Vec<Node>,
}

struct Node {
    wait: Arc<Wait>,
    /// Those inside of the mutex; `None` if one of them is supposed to go on.
    holders: Option<Holders>,
    /// For each holder, the waits that hold it up.
    held_up: Vec<Vec<usize>>,
    /// Whether it goes on some day, as far as is known.
    goes_on: bool,
}

impl Graph {
    /// The shortest cycle that `wait` closes with older waits of which `counts` is true.
    fn cycle(wait: &Arc<Wait>, counts: impl Fn(&Wait) -> bool) -> Option<Vec<Arc<Wait>>> {
        loop {
            let mut graph = Self::around(wait, &counts);
            graph.let_go();
            let cycle = graph.shortest_cycle()?;
            if graph.is_still_there() {
                return Some(cycle);
            }
        }
    }

    /// Gathers what can be reached from a wait.
    fn around(first: &Arc<Wait>, counts: &impl Fn(&Wait) -> bool) -> Self {
        let mut graph = Self { nodes: vec![Node::new(first)] };
        let mut known = HashMap::new();
        let mut next = 0;
        while let Some(node) = graph.nodes.get(next) {
            let holders = node.holders.clone().unwrap_or_default();
            for Identity { flow, branch } in holders {
                let waits = WAITS.get(&flow).map(|waits| waits.clone()).unwrap_or_default();
                let held_up = waits
                    .iter()
                    .filter(|wait| wait.lineage.contains(&branch))
                    .filter(|wait| wait.number() <= first.number() && counts(wait))
                    .map(|wait| {
                        if Arc::ptr_eq(wait, first) {
                            return 0;
                        }
                        *known.entry(wait.number()).or_insert_with(|| {
                            graph.nodes.push(Node::new(wait));
                            graph.nodes.len() - 1
                        })
                    })
                    .collect();
                graph.nodes[next].held_up.push(held_up);
            }
            next += 1;
        }
        graph
    }

    /// Finds out which waits go on: those with a holder that does, because none of the waits that
    /// hold it up stays.
    fn let_go(&mut self) {
        let mut changed = true;
        while changed {
            changed = false;
            // what was reached last is what others wait for
            for at in (0..self.nodes.len()).rev() {
                if !self.nodes[at].goes_on && self.has_free_holder(at) {
                    self.nodes[at].goes_on = true;
                    changed = true;
                }
            }
        }
    }

    fn has_free_holder(&self, at: usize) -> bool {
        let Node { holders, held_up, .. } = &self.nodes[at];
        holders.is_none()
            || held_up.iter().any(|waits| waits.iter().all(|at| self.nodes[*at].goes_on))
    }

    /// The shortest way from the first wait back to itself over waits that stay.
    fn shortest_cycle(&self) -> Option<Vec<Arc<Wait>>> {
        if self.nodes[0].goes_on {
            return None;
        }
        let mut before = vec![None; self.nodes.len()];
        let mut queue = VecDeque::from([0]);
        while let Some(at) = queue.pop_front() {
            for &next in self.nodes[at].held_up.iter().flatten() {
                if next == 0 {
                    return Some(self.way(&before, at));
                }
                if before[next].is_none() && !self.nodes[next].goes_on {
                    before[next] = Some(at);
                    queue.push_back(next);
                }
            }
        }
        None
    }

    /// The way from the first wait to this one.
    fn way(&self, before: &[Option<usize>], last: usize) -> Vec<Arc<Wait>> {
        let steps = std::iter::successors(Some(last), |at| before[*at]);
        let mut way: Vec<_> = steps.map(|at| Arc::clone(&self.nodes[at].wait)).collect();
        way.reverse();
        way
    }

    /// Whether the waits that stay have stayed since they were gathered, and with them who held
    /// what: nobody leaves a mutex while it is held up.
    fn is_still_there(&self) -> bool {
        self.nodes
            .iter()
            .filter(|node| !node.goes_on)
            .all(|node| node.wait.is_watched() && node.wait.target.holders() == node.holders)
    }
}

impl Node {
    fn new(wait: &Arc<Wait>) -> Self {
        let holders = wait.target.holders();
        Self { wait: Arc::clone(wait), holders, held_up: Vec::new(), goes_on: false }
    }
}

#[cfg(test)]
mod tests {
    use asyncsteps::Flow;

    use super::*;

    /// A mutex with these holders for ever.
    struct Held(Holders);

    impl Contended for Held {
        fn holders(&self) -> Option<Holders> {
            Some(self.0.clone())
        }

        fn target(&self) -> Target {
            Target::Mutex { name: "", key: Arc::default() }
        }
    }

    fn owners<const N: usize>() -> [Identity; N] {
        std::array::from_fn(|_| Identity { flow: Flow::new().id(), branch: 0 })
    }

    fn wait(identity: Identity, holders: &[Identity], limited: bool) -> Arc<Wait> {
        let mut flow = Flow::new();
        flow.add(|asi, ()| {
            let place = asi.places().next();
            asi.success((place,))
        });
        let (place,) = asyncsteps::run_to_end::<(Option<Place>,)>(flow).expect("it ends");
        Arc::new(Wait {
            identity,
            lineage: SmallVec::from_slice(&[identity.branch]),
            limited,
            place: place.expect("a step is running"),
            target: Arc::new(Held(holders.into())),
            number: OnceLock::new(),
        })
    }

    fn fails(wait: &Arc<Wait>) -> bool {
        matches!(look(wait), Verdict::Deadlock(_))
    }

    #[test]
    fn of_two_waits_that_come_at_once_only_the_newest_fails() {
        let [a, b] = owners();
        let (first, second) = (wait(a, &[b], false), wait(b, &[a], false));
        let _watches = (first.watch(), second.watch());
        assert!(!fails(&first));
        assert!(fails(&second));
    }

    #[test]
    fn a_holder_that_waits_for_somebody_who_goes_on_goes_on() {
        let [a, b, other, free] = owners();
        let (first, detour) = (wait(a, &[b], false), wait(other, &[free], false));
        let newest = wait(b, &[a, other], false);
        let _watches = (first.watch(), detour.watch(), newest.watch());
        assert!(!fails(&newest));
    }

    /// The wait of a branch of `flow`, below the root.
    fn below(flow: Identity, branch: u32, holders: &[Identity], limited: bool) -> Arc<Wait> {
        let mut below = wait(Identity { branch, ..flow }, holders, limited);
        Arc::get_mut(&mut below).expect("it is new").lineage.push(0);
        below
    }

    #[test]
    fn of_two_cycles_one_without_a_limit_is_enough_to_fail() {
        let [a, b] = owners();
        for limited in [true, false] {
            let (one, other) = (below(a, 1, &[b], limited), below(a, 2, &[b], true));
            let newest = wait(b, &[a], false);
            let _watches = (one.watch(), other.watch(), newest.watch());
            assert_eq!(fails(&newest), !limited);
        }
    }

    #[test]
    fn with_room_for_two_a_limit_of_one_holder_is_enough_to_wait_for() {
        let [a, b, c] = owners();
        for limited in [true, false] {
            let (one, other) = (wait(a, &[c], false), wait(b, &[c], limited));
            let newest = wait(c, &[a, b], false);
            let _watches = (one.watch(), other.watch(), newest.watch());
            assert_eq!(fails(&newest), !limited);
        }
    }

    #[test]
    fn a_wait_that_is_over_is_forgotten() {
        let [a, b] = owners();
        let (first, second) = (wait(a, &[b], false), wait(b, &[a], false));
        drop(first.watch());
        let _watch = second.watch();
        assert!(!fails(&second));
    }
}
