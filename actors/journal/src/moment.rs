//! The journal's view of time, although its clock may jump.
//!
//! Each journal keeps one row: the time of its clock when a node last looked, and two sums of the time that passed
//! since the journal was made. Nodes look when they register and whenever they renew their lease, which is each third
//! of it: so the clock goes on by a few seconds from one look to the next, and more is a jump of the clock, or a time
//! in which no node ran. A node that registers cannot tell the one from the other, so neither ends a lease: leases end
//! by the time that nodes have seen pass. Time limits count both, so that an outage counts: a jump that a node finds as
//! it registers makes them strike early. All that depends on time is decided here:
//!
//! | what | by |
//! |---|---|
//! | starts, schedules, deadlines: times of day | [`Moment::now`] |
//! | pauses, time limits: lengths of time | [`Moment::passed`] |
//! | leases, and how long an ended flow is kept | [`Moment::seen`] |

use std::time::Duration;

use crate::request::LEASE;
use crate::time::{Jump, Reading, Timestamp};

/// The most that is counted from one look to the next, in milliseconds: half a lease, so that a jump
/// ends no lease that is renewed.
const STEP: u64 = LEASE.as_secs() * 1000 / 2;

/// From this difference on, in milliseconds, a clock has jumped. Smaller ones are the work of time
/// servers.
const JUMP: u64 = 60_000;

/// How long, in milliseconds that were seen to pass, a clock that has jumped forward is not believed. Nodes
/// look again meanwhile; if the clock has gone back by then, nothing has begun or ended because of it.
const DOUBT: u64 = 3_000;

/// The journal's record of time. The sums begin at the time of day of the first look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClockState {
    /// The time of the clock at the last look; `None` before the first one.
    pub(crate) wall: Option<Timestamp>,
    pub(crate) passed: Timestamp,
    pub(crate) seen: Timestamp,
    /// The clock has jumped forward, and is not believed yet.
    pub(crate) doubt: Option<Doubt>,
}

/// A jump that may be a mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Doubt {
    /// The time of day as it was believed at the look that found it.
    pub(crate) from: Timestamp,
    /// The time that was [seen](ClockState::seen) to pass until that look.
    pub(crate) since: Timestamp,
}

/// Which request of a node is a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// A node begins. The clock may have gone on for long, because no node ran.
    Register,
    /// A node goes on: only a jump makes the clock go on for long.
    Renew,
}

/// A moment, as rules need it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moment {
    /// The time of the clock.
    pub(crate) wall: Timestamp,
    /// The time of day. A jump forward counts only when it is confirmed by a later look.
    pub(crate) now: Timestamp,
    /// The time that passed while nodes ran and, by the clock, while none did. It never goes back, and a jump while
    /// nodes run does not change it.
    pub(crate) passed: Timestamp,
    /// The time that passed while nodes ran. No jump changes it.
    pub(crate) seen: Timestamp,
}

impl ClockState {
    /// The moment at which the clock says `wall`, without a look.
    pub(crate) fn at(&self, wall: Timestamp) -> Moment {
        self.looked(wall, Look::Renew).0.moment(wall)
    }

    /// A node looks when the clock shows `wall`: returns the new state, and the reading of the
    /// node.
    pub(crate) fn look(&self, wall: Timestamp, look: Look) -> (Self, Reading) {
        let (times, jump) = self.looked(wall, look);
        let Moment { now, passed, .. } = times.moment(wall);
        (times, Reading { now, passed, jump })
    }

    fn looked(&self, wall: Timestamp, look: Look) -> (Self, Option<Jump>) {
        let Some(last) = self.wall else {
            return (Self { wall: Some(wall), passed: wall, seen: wall, doubt: None }, None);
        };
        let (forward, back) = (wall.since(last), last.since(wall));
        let counted = forward.min(STEP);
        let is_jump = back > JUMP || forward > JUMP && look == Look::Renew;
        let seen = self.seen.plus(counted);
        let doubt = match (look, self.doubt) {
            (Look::Register, _) => None,
            (Look::Renew, _) if back > JUMP => None,
            (Look::Renew, _) if forward > JUMP => {
                Some(Doubt { from: self.moment(last).now.plus(counted), since: seen })
            }
            (Look::Renew, doubt) => doubt.filter(|doubt| seen.since(doubt.since) < DOUBT),
        };
        let times = Self {
            wall: Some(wall),
            passed: self.passed.plus(if look == Look::Register { forward } else { counted }),
            seen,
            doubt,
        };
        (times, is_jump.then_some(Jump { from: last, to: wall }))
    }

    fn moment(&self, wall: Timestamp) -> Moment {
        let believed = |doubt: Doubt| doubt.from.plus(self.seen.since(doubt.since)).min(wall);
        let now = self.doubt.map_or(wall, believed);
        Moment { wall, now, passed: self.passed, seen: self.seen }
    }
}

impl Moment {
    /// The value of `seen` this long ago.
    pub(crate) fn seen_before(&self, age: Duration) -> Timestamp {
        let millis = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        Timestamp::from_millis(self.seen.as_millis().saturating_sub(millis))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(100 * HOUR + millis)
    }

    /// The state of a journal after looks at these times, the first of which is by a node that
    /// begins.
    fn after(looks: &[u64]) -> ClockState {
        let looks = looks.iter().enumerate();
        looks.fold(ClockState::default(), |times, (number, millis)| {
            let look = if number == 0 { Look::Register } else { Look::Renew };
            times.look(at(*millis), look).0
        })
    }

    #[test]
    fn a_clock_that_goes_on_is_believed_and_counted() {
        let moment = after(&[0, 3_000, 6_000]).at(at(7_000));
        assert_eq!((moment.now, moment.passed, moment.seen), (at(7_000), at(7_000), at(7_000)));
    }

    #[test]
    fn a_jump_forward_counts_as_a_step_and_is_believed_when_it_lasts() {
        let times = after(&[0, HOUR]);
        let moment = times.at(at(HOUR));
        assert_eq!((moment.now, moment.passed, moment.seen), (at(STEP), at(STEP), at(STEP)));
        let (times, reading) = times.look(at(HOUR + 4_000), Look::Renew);
        assert_eq!((reading.now, reading.jump), (at(HOUR + 4_000), None));
        assert_eq!(times.at(at(HOUR + 4_000)).seen, at(STEP + 4_000));
    }

    #[test]
    fn a_jump_forward_and_back_changes_nothing_but_a_step() {
        let ahead = after(&[0, HOUR]);
        assert_eq!(ahead.at(at(1_000)).now, at(1_000));
        let (times, reading) = ahead.look(at(1_000), Look::Renew);
        assert_eq!(reading.jump, Some(Jump { from: at(HOUR), to: at(1_000) }));
        let moment = times.at(at(2_000));
        assert_eq!((moment.now, moment.passed), (at(2_000), at(STEP + 1_000)));
    }

    #[test]
    fn what_passes_while_no_node_runs_is_counted_but_not_seen() {
        let (times, reading) = after(&[0]).look(at(HOUR), Look::Register);
        assert_eq!(reading, Reading { now: at(HOUR), passed: at(HOUR), jump: None });
        assert_eq!(times.at(at(HOUR)).seen, at(STEP));
        let (times, reading) = times.look(at(0), Look::Register);
        assert_eq!(
            reading.jump,
            Some(Jump { from: at(HOUR), to: at(0) }),
            "only a clock goes back"
        );
        assert_eq!(times.at(at(0)).passed, at(HOUR));
    }
}
