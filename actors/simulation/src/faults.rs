//! The faults of a cluster, how often, and when: the choices of a seed.

use std::fmt;
use std::time::Duration;

use asyncsteps_core::sim::Random;

use crate::network::NetworkCut;

/// How long a node is down after a kill, or paused, at the most.
const MOST_DOWN: Duration = Duration::from_secs(20);
const MOST_STOP: Duration = Duration::from_secs(30);

/// How long a node that runs is without a session, at the most.
const MOST_GONE: Duration = Duration::from_secs(2);

/// How long something is wrong with the way between a node and the network, at the most.
const MOST_CUT: Duration = Duration::from_secs(10);

/// How often things go wrong: each rate is how many times in a virtual second it happens to a node.
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use = "it is given to `Cluster::faults`"]
pub struct Faults {
    kills: f64,
    stops: f64,
    jumps: f64,
    drifts: f64,
    stalls: f64,
    full: f64,
    errors: f64,
    losses: f64,
    partitions: f64,
    sessions: f64,
    most_jump: Duration,
    most_stall: Duration,
}

impl Faults {
    /// Nothing goes wrong.
    pub const fn none() -> Self {
        Self {
            kills: 0.0,
            stops: 0.0,
            jumps: 0.0,
            drifts: 0.0,
            stalls: 0.0,
            full: 0.0,
            errors: 0.0,
            losses: 0.0,
            partitions: 0.0,
            sessions: 0.0,
            most_jump: Duration::from_secs(25 * 3600),
            most_stall: Duration::from_secs(2),
        }
    }

    /// Each kind of fault: a kill, a loss of the connection or of the session and a partition in 100 s; a stop, a jump and a drift of the
    /// clock and a full disk in 200 s; a stall of the journal in 50 s; and an operation in 10 s that fails or whose answer
    /// is lost.
    pub const fn all() -> Self {
        Self {
            kills: 0.01,
            stops: 0.005,
            jumps: 0.005,
            drifts: 0.005,
            stalls: 0.02,
            full: 0.005,
            errors: 0.1,
            losses: 0.01,
            partitions: 0.01,
            sessions: 0.01,
            ..Self::none()
        }
    }

    /// A node is killed, and starts again within 20 s. Half of the kills are noticed by the end of its session with the
    /// journal, the others by that of its lease.
    pub const fn kills(self, per_second: f64) -> Self {
        Self { kills: per_second, ..self }
    }

    /// A node does not run for up to 30 s, as after SIGSTOP, and then goes on.
    pub const fn stops(self, per_second: f64) -> Self {
        Self { stops: per_second, ..self }
    }

    /// The time of day of a node jumps by up to `most`, forward or back, or as often the time of the journal: the clock
    /// of a database is the clock of its server.
    pub const fn clock_jumps(self, per_second: f64, most: Duration) -> Self {
        Self { jumps: per_second, most_jump: most, ..self }
    }

    /// The time of day of a node is up to a tenth too fast from then on.
    pub const fn clock_drifts(self, per_second: f64) -> Self {
        Self { drifts: per_second, ..self }
    }

    /// The journal answers a node no sooner than after up to `most`, for 5 s.
    pub const fn slow_disk(self, per_second: f64, most: Duration) -> Self {
        Self { stalls: per_second, most_stall: most, ..self }
    }

    /// The disk is full for up to 5 s: nothing is written.
    pub const fn full_disk(self, per_second: f64) -> Self {
        Self { full: per_second, ..self }
    }

    /// The next operation of the journal is not done, or its answer is lost.
    pub const fn disk_errors(self, per_second: f64) -> Self {
        Self { errors: per_second, ..self }
    }

    /// A node loses its connection to the network for up to 10 s, and the messages in flight on it; the node notices.
    pub const fn connection_losses(self, per_second: f64) -> Self {
        Self { losses: per_second, ..self }
    }

    /// Messages from a node, to it, or both, do not arrive for up to 10 s, without notice; or they arrive when that time
    /// is over, as from a server that does not run.
    pub const fn partitions(self, per_second: f64) -> Self {
        Self { partitions: per_second, ..self }
    }

    /// The session of a node with the journal ends, and the node has a new one within 2 s: too late for its lease, at
    /// times.
    pub const fn session_losses(self, per_second: f64) -> Self {
        Self { sessions: per_second, ..self }
    }

    pub(crate) fn is_none(&self) -> bool {
        *self == Self { most_jump: self.most_jump, most_stall: self.most_stall, ..Self::none() }
    }
}

/// Something that goes wrong with a node, and how: for how long, or by how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NodeFault {
    Kill(Duration),
    /// The same, and its session has ended.
    NoticedKill(Duration),
    Stop(Duration),
    /// Its clock is this number of milliseconds ahead from now on, or behind.
    Jump(i64),
    /// The clock of the journal is.
    JournalJump(i64),
    /// Too fast by this number of thousandths.
    Drift(u32),
    Stall(Duration),
    Full(Duration),
    NotDone,
    AnswerLost,
    Cut(NetworkCut, Duration),
    SessionLost(Duration),
}

impl NodeFault {
    /// Its place in the figures.
    pub(crate) const fn kind(self) -> FaultKind {
        match self {
            Self::Kill(_) => FaultKind::Kill,
            Self::NoticedKill(_) => FaultKind::NoticedKill,
            Self::Stop(_) => FaultKind::Stop,
            Self::Jump(_) => FaultKind::Jump,
            Self::JournalJump(_) => FaultKind::JournalJump,
            Self::Drift(_) => FaultKind::Drift,
            Self::Stall(_) => FaultKind::Stall,
            Self::Full(_) => FaultKind::Full,
            Self::NotDone => FaultKind::NotDone,
            Self::AnswerLost => FaultKind::AnswerLost,
            Self::Cut(NetworkCut::Lost, _) => FaultKind::ConnectionLoss,
            Self::Cut(NetworkCut::Frozen, _) => FaultKind::Freeze,
            Self::Cut(NetworkCut::Silent | NetworkCut::Mute | NetworkCut::Deaf, _) => {
                FaultKind::Partition
            }
            Self::SessionLost(_) => FaultKind::SessionLoss,
        }
    }
}

impl fmt::Display for NodeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill(down) => write!(f, "is killed, down for {down:?}"),
            Self::NoticedKill(down) => {
                write!(f, "is killed, which the others notice, down for {down:?}")
            }
            Self::Stop(time) => write!(f, "stands still for {time:?}"),
            Self::Jump(by) => write!(f, "its clock is {by} ms ahead"),
            Self::JournalJump(by) => write!(f, "the clock of the journal is {by} ms ahead"),
            Self::Drift(parts) => write!(f, "its clock is too fast by {parts} thousandths"),
            Self::Stall(by) => write!(f, "its journal answers after {by:?}"),
            Self::Full(time) => write!(f, "its disk is full for {time:?}"),
            Self::NotDone => f.write_str("an operation of its journal is not done"),
            Self::AnswerLost => f.write_str("an answer of its journal is lost"),
            Self::Cut(NetworkCut::Lost, time) => write!(f, "it loses its connection for {time:?}"),
            Self::Cut(NetworkCut::Silent, time) => write!(f, "no message passes for {time:?}"),
            Self::Cut(NetworkCut::Mute, time) => write!(f, "what it sends is lost for {time:?}"),
            Self::Cut(NetworkCut::Deaf, time) => {
                write!(f, "what is sent to it is lost for {time:?}")
            }
            Self::Cut(NetworkCut::Frozen, time) => {
                write!(f, "its messages stay where they are for {time:?}")
            }
            Self::SessionLost(time) => write!(f, "it has no session for {time:?}"),
        }
    }
}

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FaultKind {
    /// A node is killed, and has the rest of its lease.
    Kill,
    /// A node is killed, and the others notice.
    NoticedKill,
    /// A node is paused for a time.
    Stop,
    /// The time of day of a node jumps.
    Jump,
    /// The time of day of the journal jumps, for all nodes.
    JournalJump,
    /// The clock of a node is too fast.
    Drift,
    /// The journal of a node is slow.
    Stall,
    /// The disk of a node is full.
    Full,
    /// An operation of the journal is not done.
    NotDone,
    /// The answer to an operation of the journal is lost.
    AnswerLost,
    /// A node loses its connection to the network, and notices.
    ConnectionLoss,
    /// Messages of a node or to it are lost, without notice.
    Partition,
    /// Messages of a node and to it arrive later, all at once.
    Freeze,
    /// A node that runs loses its session with the journal.
    SessionLoss,
}

impl FaultKind {
    /// All kinds.
    pub const ALL: [Self; 14] = [
        Self::Kill,
        Self::NoticedKill,
        Self::Stop,
        Self::Jump,
        Self::JournalJump,
        Self::Drift,
        Self::Stall,
        Self::Full,
        Self::NotDone,
        Self::AnswerLost,
        Self::ConnectionLoss,
        Self::Partition,
        Self::Freeze,
        Self::SessionLoss,
    ];
}

/// The faults of a node, second by second: they follow from its seed and the rates alone, whatever else happens, so that
/// a run can be repeated without some of them.
#[derive(Debug)]
pub(crate) struct FaultSchedule {
    random: Random,
    /// How many faults there were.
    count: usize,
}

impl FaultSchedule {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), count: 0 }
    }

    /// The faults of the next second: the number of each, when in that second it happens, and its kind.
    pub(crate) fn next_second(&mut self, rates: &Faults) -> Vec<(usize, Duration, NodeFault)> {
        let kinds = [
            rates.kills,
            rates.stops,
            rates.jumps,
            rates.drifts,
            rates.stalls,
            rates.full,
            rates.errors,
            rates.losses,
            rates.partitions,
            rates.sessions,
        ];
        let mut faults = Vec::new();
        for (kind, rate) in kinds.into_iter().enumerate() {
            if !self.happens(rate) {
                continue;
            }
            let random = &mut self.random;
            let at = Duration::from_millis(random.below(1000) as u64);
            let is_first = random.one_in(2);
            let fault = match kind {
                0 if is_first => NodeFault::NoticedKill(random.within(MOST_DOWN)),
                0 => NodeFault::Kill(random.within(MOST_DOWN)),
                1 => NodeFault::Stop(random.within(MOST_STOP)),
                2 => {
                    let by = millis(random.within(rates.most_jump));
                    let by = if random.one_in(2) { by } else { -by };
                    if is_first { NodeFault::Jump(by) } else { NodeFault::JournalJump(by) }
                }
                3 => NodeFault::Drift(u32::try_from(random.below(100)).unwrap_or(0)),
                4 => NodeFault::Stall(random.within(rates.most_stall)),
                5 => NodeFault::Full(random.within(Duration::from_secs(5))),
                6 if is_first => NodeFault::NotDone,
                6 => NodeFault::AnswerLost,
                7 => NodeFault::Cut(NetworkCut::Lost, random.within(MOST_CUT)),
                8 => {
                    let cuts = [NetworkCut::Silent, NetworkCut::Mute, NetworkCut::Deaf];
                    let silent = cuts[random.below(cuts.len())];
                    let cut = if is_first { NetworkCut::Frozen } else { silent };
                    NodeFault::Cut(cut, random.within(MOST_CUT))
                }
                _ => NodeFault::SessionLost(random.within(MOST_GONE)),
            };
            faults.push((self.count, at, fault));
            self.count += 1;
        }
        faults
    }

    /// Whether an event of this rate, in events per second, happens in a second.
    fn happens(&mut self, rate: f64) -> bool {
        const PARTS: u32 = 1_000_000;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is between 0 and 1"
        )]
        let parts = (rate.clamp(0.0, 1.0) * f64::from(PARTS)) as usize;
        self.random.below(PARTS as usize) < parts
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
