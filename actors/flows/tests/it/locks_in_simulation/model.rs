//! What a mutex, a throttle and a limiter do to a few clients, without any of them.

use std::collections::BTreeMap;
use std::fmt;

use asyncsteps_core::sim::linear::Model;

/// What a client asks or does, and at which millisecond.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub(super) who: usize,
    pub(super) what: Action,
    pub(super) at: u64,
}

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { who, what, at } = self;
        write!(f, "{what:?} by {who} at {at} ms")
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    /// It comes, and waits if it has to.
    Lock,
    /// It comes only if it need not wait.
    TryLock,
    /// It does what it came for.
    Work,
    /// It leaves as often as it came once, or stops waiting.
    Leave,
    /// It was cancelled: it leaves wherever it is.
    Vanish,
}

/// What is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Enters,
    Waits,
    /// It entered or waits; which of them the client cannot know.
    Accepted,
    /// The queue is full.
    Refused,
    /// It would have to wait.
    Busy,
    Done,
}

impl Answer {
    /// Whether a client may see this answer when `real` is what happens.
    fn shows(self, real: Self) -> bool {
        let is_accepted = matches!(real, Self::Enters | Self::Waits);
        self == real || self == Self::Accepted && is_accepted
    }
}

/// At most `max` clients are inside, and at most `max_queue` wait, in the order in which they came.
pub(super) struct Mutex {
    pub(super) max: usize,
    pub(super) max_queue: usize,
}

/// Who is inside, how often it came, and who waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Room {
    inside: BTreeMap<usize, u32>,
    queue: Vec<usize>,
}

impl Model for Mutex {
    type State = Room;
    type Operation = Asked;
    type Answer = Answer;

    fn start(&self) -> Room {
        Room::default()
    }

    fn apply(&self, room: &Room, asked: &Asked, answer: Option<&Answer>) -> Option<Room> {
        let (mut room, who) = (room.clone(), asked.who);
        let real = match asked.what {
            Action::Lock => self.lock(&mut room, who, Answer::Refused, self.max_queue),
            Action::TryLock => self.lock(&mut room, who, Answer::Busy, 0),
            Action::Work if !room.inside.contains_key(&who) => return None,
            Action::Work => Answer::Done,
            Action::Leave => self.leave(&mut room, who, 1),
            Action::Vanish => self.leave(&mut room, who, u32::MAX),
        };
        answer.is_none_or(|answer| answer.shows(real)).then_some(room)
    }
}

impl Mutex {
    fn lock(&self, room: &mut Room, who: usize, no: Answer, max_queue: usize) -> Answer {
        if let Some(times) = room.inside.get_mut(&who) {
            *times += 1;
            return Answer::Enters;
        }
        if room.queue.is_empty() && room.inside.len() < self.max {
            room.inside.insert(who, 1);
            return Answer::Enters;
        }
        if room.queue.len() < max_queue {
            room.queue.push(who);
            return Answer::Waits;
        }
        no
    }

    fn leave(&self, room: &mut Room, who: usize, times: u32) -> Answer {
        room.queue.retain(|waits| *waits != who);
        if let Some(left) = room.inside.get_mut(&who) {
            *left = left.saturating_sub(times);
        }
        room.inside.retain(|_, left| *left > 0);
        while room.inside.len() < self.max && !room.queue.is_empty() {
            room.inside.insert(room.queue.remove(0), 1);
        }
        Answer::Done
    }
}

/// At most `max` clients enter per period, and at most `max_queue` wait, in the order in which they came.
pub(super) struct Throttle {
    pub(super) max: usize,
    pub(super) max_queue: usize,
    pub(super) period: u64,
}

/// The end of the period if one is open, who entered in it, and who waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Period {
    end: Option<u64>,
    entered: Vec<usize>,
    queue: Vec<usize>,
}

impl Model for Throttle {
    type State = Period;
    type Operation = Asked;
    type Answer = Answer;

    fn start(&self) -> Period {
        Period::default()
    }

    fn apply(&self, period: &Period, asked: &Asked, answer: Option<&Answer>) -> Option<Period> {
        let (mut period, who) = (self.at(period.clone(), asked.at), asked.who);
        let real = match asked.what {
            Action::Lock => self.enter(&mut period, asked, Answer::Refused, self.max_queue),
            Action::TryLock => self.enter(&mut period, asked, Answer::Busy, 0),
            // in the period that counts it
            Action::Work if !period.entered.contains(&who) => return None,
            Action::Work => Answer::Done,
            Action::Leave | Action::Vanish => {
                period.queue.retain(|waits| *waits != who);
                Answer::Done
            }
        };
        answer.is_none_or(|answer| answer.shows(real)).then_some(period)
    }
}

impl Throttle {
    /// The period at this time: the next one begins with those who wait, and none begins without them.
    fn at(&self, mut period: Period, now: u64) -> Period {
        while let Some(end) = period.end.filter(|end| *end <= now) {
            let next = period.queue.len().min(self.max);
            period.entered = period.queue.drain(..next).collect();
            period.end = (next > 0).then_some(end + self.period);
        }
        period
    }

    fn enter(&self, period: &mut Period, asked: &Asked, no: Answer, max_queue: usize) -> Answer {
        if period.queue.is_empty() && period.entered.len() < self.max {
            period.end.get_or_insert(asked.at + self.period);
            period.entered.push(asked.who);
            return Answer::Enters;
        }
        if period.queue.len() < max_queue {
            period.queue.push(asked.who);
            return Answer::Waits;
        }
        no
    }
}

/// A mutex, and a throttle inside of it. The queues have no limit.
pub(super) struct Limiter {
    pub(super) mutex: Mutex,
    pub(super) throttle: Throttle,
}

impl Model for Limiter {
    type State = (Room, Period);
    type Operation = Asked;
    type Answer = Answer;

    fn start(&self) -> (Room, Period) {
        (self.mutex.start(), self.throttle.start())
    }

    /// Who works is in the room, and is one more of those who entered in this period.
    fn apply(
        &self,
        (room, period): &(Room, Period),
        asked: &Asked,
        answer: Option<&Answer>,
    ) -> Option<(Room, Period)> {
        let room = self.mutex.apply(room, asked, answer)?;
        let period = match asked.what {
            Action::Work => {
                let enters = Asked { what: Action::TryLock, ..*asked };
                self.throttle.apply(period, &enters, Some(&Answer::Enters))?
            }
            Action::Lock | Action::TryLock | Action::Leave | Action::Vanish => period.clone(),
        };
        Some((room, period))
    }
}
