//! Histories of concurrent operations, checked against a model of their possible answers.
//!
//! A lock, a journal or a queue is right if each of its operations seems to happen at one moment between its invocation
//! and its answer: the history is *linearizable* (Herlihy and Wing 1990). A [`Model`] says what the operations do one
//! after another, in a few lines that know nothing of the code under test. A [`History`] records operations and
//! answers, and [`check`](History::check) looks for an order that explains all answers.
//!
//! ```
//! use asyncsteps_core::sim::linear::{History, Model};
//!
//! /// A number that is added to; each answer is the sum.
//! struct Sum;
//!
//! impl Model for Sum {
//!     type State = u32;
//!     type Operation = u32;
//!     type Answer = u32;
//!
//!     fn start(&self) -> u32 {
//!         0
//!     }
//!
//!     fn apply(&self, sum: &u32, added: &u32, answer: Option<&u32>) -> Option<u32> {
//!         let sum = sum + added;
//!         answer.is_none_or(|answer| *answer == sum).then_some(sum)
//!     }
//! }
//!
//! let mut history = History::<Sum>::new();
//! let (one, two) = (history.invoke(1), history.invoke(2));
//! history.answer(one, 3);
//! history.answer(two, 2);
//! history.check(&Sum)?; // two came before one
//!
//! let three = history.invoke(3);
//! history.answer(three, 5);
//! let error = history.check(&Sum).unwrap_err();
//! assert!(error.to_string().contains("3 -> 5"), "one of the others is lost");
//! # Ok::<(), asyncsteps_core::sim::linear::NotExplained>(())
//! ```

use std::collections::HashSet;
use std::error::Error;
use std::fmt::{self, Debug, Write};
use std::hash::Hash;

/// How many situations a check looks at.
const MAX_SITUATIONS: usize = 100_000;

/// How many operations and states a message shows.
const SHOWN: (usize, usize) = (40, 3);

/// The effects of operations, one after another.
pub trait Model {
    /// The state that the earlier operations have left; small, because many are kept.
    type State: Clone + Eq + Hash + Debug;
    /// An operation.
    type Operation: Debug;
    /// The answer to an operation.
    type Answer: Debug;

    /// The state before the first operation.
    fn start(&self) -> Self::State;

    /// The state after the operation, or `None` if this answer is impossible in this state. Without an answer
    /// the operation happens all the same, and any answer would do.
    fn apply(
        &self,
        state: &Self::State,
        operation: &Self::Operation,
        answer: Option<&Self::Answer>,
    ) -> Option<Self::State>;
}

/// The number of an operation in its [`History`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invoked(usize);

/// The operations of a run, in the order of their invocations and answers.
///
/// An operation is recorded before it is asked and after it has answered. One that never answers may have
/// happened at any time after its invocation, or not at all. Put it in a `RefCell` or a `Mutex` where tasks share
/// it.
pub struct History<M: Model> {
    calls: Vec<(M::Operation, Option<M::Answer>)>,
    events: Vec<HistoryEvent>,
}

#[derive(Clone, Copy)]
enum HistoryEvent {
    Invoked(usize),
    Answered(usize),
}

impl<M: Model> History<M> {
    /// One without operations.
    #[must_use]
    pub const fn new() -> Self {
        Self { calls: Vec::new(), events: Vec::new() }
    }

    /// An operation is about to be asked.
    pub fn invoke(&mut self, operation: M::Operation) -> Invoked {
        let number = self.calls.len();
        self.calls.push((operation, None));
        self.events.push(HistoryEvent::Invoked(number));
        Invoked(number)
    }

    /// An operation has answered.
    ///
    /// # Panics
    /// If it has answered before.
    pub fn answer(&mut self, Invoked(number): Invoked, answer: M::Answer) {
        let before = self.calls[number].1.replace(answer);
        assert!(before.is_none(), "operation {number} answers once");
        self.events.push(HistoryEvent::Answered(number));
    }

    /// Looks for an order of the operations that explains all answers: each operation has one moment between its
    /// invocation and its answer. Depth first, in the order of the answers; an operation is placed only when an
    /// answer needs it, and no situation is looked at twice (Lowe 2017, after Wing and Gong 1993).
    ///
    /// # Errors
    /// If there is none, or the search is too long.
    pub fn check(&self, model: &M) -> Result<(), NotExplained> {
        let first = Situation { events: 0, ahead: Vec::new(), state: model.start() };
        let mut known = HashSet::from([first.clone()]);
        let mut open = vec![first];
        let mut furthest = (0, Vec::new()); // with states there
        while let Some(mut now) = open.pop() {
            let Some(needed) = self.go_on(&mut now) else { return Ok(()) };
            if now.events > furthest.0 {
                furthest = (now.events, Vec::new());
            }
            let is_new = furthest.1.len() < SHOWN.1 && !furthest.1.contains(&now.state);
            if now.events == furthest.0 && is_new {
                furthest.1.push(now.state.clone());
            }
            // the last one is tried first: the needed operation itself
            let others = self.waiting(&now).filter(|number| *number != needed);
            for number in others.chain([needed]) {
                let (operation, answer) = &self.calls[number];
                let Some(state) = model.apply(&now.state, operation, answer.as_ref()) else {
                    continue;
                };
                let mut ahead = now.ahead.clone();
                ahead.insert(ahead.partition_point(|other| *other < number), number);
                let next = Situation { events: now.events, ahead, state };
                if known.insert(next.clone()) {
                    open.push(next);
                }
            }
            if known.len() > MAX_SITUATIONS {
                return Err(NotExplained::TooLong { situations: known.len() });
            }
        }
        let (events, states) = furthest;
        Err(NotExplained::Impossible { events: events + 1, text: self.text(events, &states) })
    }

    /// Goes on to the next answer of an operation that has no place yet, and returns that operation.
    fn go_on(&self, now: &mut Situation<M::State>) -> Option<usize> {
        while let Some(event) = self.events.get(now.events) {
            if let HistoryEvent::Answered(number) = *event {
                let Ok(place) = now.ahead.binary_search(&number) else { return Some(number) };
                now.ahead.remove(place);
            }
            now.events += 1;
        }
        None
    }

    /// The operations that may have a place next.
    fn waiting(&self, now: &Situation<M::State>) -> impl Iterator<Item = usize> {
        let mut waiting = Vec::new();
        for event in &self.events[..now.events] {
            match *event {
                HistoryEvent::Invoked(number) => waiting.push(number),
                HistoryEvent::Answered(number) => waiting.retain(|other| *other != number),
            }
        }
        waiting.retain(|number| now.ahead.binary_search(number).is_err());
        waiting.into_iter()
    }

    /// The part that cannot be explained: the last operations up to an answer, and the states that are possible before
    /// it.
    fn text(&self, last: usize, states: &[M::State]) -> String {
        let mut lines = Vec::new();
        let mut lines_of = vec![None; self.calls.len()];
        for (at, event) in self.events[..=last].iter().enumerate() {
            match *event {
                HistoryEvent::Invoked(number) => {
                    lines_of[number] = Some(lines.len());
                    lines.push((at, None, number));
                }
                HistoryEvent::Answered(number) => {
                    if let Some(line) = lines_of[number] {
                        lines[line].1 = Some(at);
                    }
                }
            }
        }
        let mut text = String::new();
        // writing to a string cannot fail
        for (from, until, number) in &lines[lines.len().saturating_sub(SHOWN.0)..] {
            let (operation, answer) = &self.calls[*number];
            let _ = match until {
                Some(until) => write!(text, "    {from}..{until}: {operation:?}"),
                None => write!(text, "    {from}..: {operation:?}"),
            };
            let _ = match answer {
                Some(answer) => writeln!(text, " -> {answer:?}"),
                None => writeln!(text, " without an answer"),
            };
        }
        for state in states {
            let _ = writeln!(text, "  a state before that answer: {state:?}");
        }
        text
    }
}

/// How far a search has come.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Situation<S> {
    /// How many events are explained.
    events: usize,
    /// The operations that have their place before their answer, sorted.
    ahead: Vec<usize>,
    state: S,
}

impl<M: Model> Default for History<M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<M: Model> Debug for History<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.calls).finish()
    }
}

/// Why a history is not shown to be right.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotExplained {
    /// No order explains the answers.
    Impossible {
        /// The shortest beginning of the history, in invocations and answers, for which there is no order. An
        /// operation that was asked there counts with its later answer.
        events: usize,
        /// The last operations of that beginning, and states before its last answer.
        text: String,
    },
    /// The search was abandoned.
    TooLong {
        /// The situations that were looked at.
        situations: usize,
    },
}

impl fmt::Display for NotExplained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Impossible { events, text } => {
                let last = events - 1;
                write!(f, "no order of the operations explains the answer at {last}:\n{text}")
            }
            Self::TooLong { situations } => {
                write!(f, "no order was found in {situations} situations: make the history shorter")
            }
        }
    }
}

impl Error for NotExplained {}

#[cfg(test)]
mod tests {
    use super::*;
    use Asked::{Read, Write as Set};

    /// A register that is written and read.
    struct Register;

    #[derive(Clone, Copy, Debug)]
    enum Asked {
        Write(u32),
        Read,
    }

    impl Model for Register {
        type State = u32;
        type Operation = Asked;
        type Answer = Option<u32>;

        fn start(&self) -> u32 {
            0
        }

        fn apply(&self, state: &u32, asked: &Asked, answer: Option<&Option<u32>>) -> Option<u32> {
            match (asked, answer) {
                (Set(value), None | Some(None)) => Some(*value),
                (Read, Some(Some(read))) if read == state => Some(*state),
                (Read, None) => Some(*state),
                _ => None,
            }
        }
    }

    /// A time that does not come.
    const NEVER: usize = 1000;

    /// Checks operations with the times of their invocation and answer, all different.
    fn check(calls: &[(usize, Asked, usize, Option<u32>)]) -> Result<(), NotExplained> {
        let mut history = History::<Register>::new();
        let mut invoked = vec![None; calls.len()];
        for time in 0..NEVER {
            for (number, (from, asked, until, answer)) in calls.iter().enumerate() {
                if *from == time {
                    invoked[number] = Some(history.invoke(*asked));
                }
                if *until == time {
                    history.answer(invoked[number].expect("it was invoked"), *answer);
                }
            }
        }
        history.check(&Register)
    }

    #[test]
    fn reads_at_once_with_a_write_see_it_or_not() {
        for seen in [0, 1] {
            check(&[(0, Set(1), 5, None), (1, Read, 2, Some(seen))]).expect("either");
        }
        check(&[(0, Set(1), 9, None), (1, Read, 2, Some(0)), (3, Read, 4, Some(1))])
            .expect("later");
    }

    #[test]
    fn what_was_seen_is_not_forgotten() {
        let error = check(&[
            (0, Set(1), 9, None),
            (1, Read, 2, Some(1)),
            (3, Read, 4, Some(0)),
            (5, Read, 6, Some(1)),
        ])
        .unwrap_err();
        let NotExplained::Impossible { events, text } = &error else { panic!("{error}") };
        assert_eq!(*events, 5, "the last read is not part of it");
        assert_eq!(
            *text,
            "    0..: Write(1) -> None\n    1..2: Read -> Some(1)\n    3..4: Read -> Some(0)\n  \
             a state before that answer: 1\n"
        );
    }

    #[test]
    fn a_read_after_the_write_sees_it() {
        assert!(check(&[(0, Set(1), 1, None), (2, Read, 3, Some(0))]).is_err());
        assert!(check(&[(0, Read, 1, Some(1)), (2, Set(1), 3, None)]).is_err(), "nor earlier");
    }

    #[test]
    fn what_was_not_answered_happens_late_or_never() {
        let lost = |first, second| {
            check(&[
                (0, Set(1), NEVER, None),
                (1, Read, 2, Some(first)),
                (3, Read, 4, Some(second)),
            ])
        };
        for (first, second) in [(0, 0), (0, 1), (1, 1)] {
            lost(first, second).expect("it may be");
        }
        assert!(lost(1, 0).is_err(), "it happened and stays");
    }

    #[test]
    fn a_search_has_an_end() {
        let mut events: Vec<_> = (0..24).map(|n| (n, Set(1 << n), 100 + n, None)).collect();
        events.push((30, Read, 31, Some(7)));
        assert!(matches!(check(&events), Err(NotExplained::TooLong { .. })));
        events.pop();
        check(&events).expect("most orders are not looked at");
    }
}
