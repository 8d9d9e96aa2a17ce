//! How far a flow is with the node that has it.

use std::time::Duration;

use crate::writer::Stopped;

/// How far a flow is with the node that has it: [`transition`](Self::transition) is all that changes it.
#[derive(Debug, Default)]
pub(crate) enum Life {
    /// Its function was not entered.
    #[default]
    New,
    Runs,
    /// Its function ended by itself: only the check of the result, or undo, is left. One that was not so far was cut, as
    /// by a crash.
    Finished,
    /// This node does not run it any more: no body begins, and nothing is recorded or undone.
    Left(LeaveReason),
}

/// What happens to a flow.
#[derive(Debug)]
pub(crate) enum Turn {
    /// Its function is entered.
    Enters,
    /// Its function ends by itself.
    Finishes,
    /// The node leaves it.
    Leaves(LeaveReason),
}

/// Why a node leaves a flow that has not ended.
#[derive(Clone, Debug)]
pub(crate) enum LeaveReason {
    /// Another node has it, or may have it.
    Lost,
    /// The node stops.
    Released,
    /// It only waits: so long at the most.
    Parked(Option<Duration>),
    /// Something has refused it or is away, for this reason: it tries again after so long.
    Refused(Duration, String),
    /// It waits for an operator, for this reason.
    Paused(String),
}

impl Life {
    /// The only change of it; returns whether that is a change. A flow that was left stays so, for the first reason.
    ///
    /// | | enters | finishes | leaves |
    /// |---|---|---|---|
    /// | new | runs | finished | left |
    /// | runs | runs | finished | left |
    /// | finished | runs | finished | left |
    /// | left | left | left | left |
    pub(crate) fn transition(&mut self, turn: Turn) -> bool {
        let next = match (&*self, turn) {
            (Self::Left(_), _) | (Self::Runs, Turn::Enters) | (Self::Finished, Turn::Finishes) => {
                return false;
            }
            (Self::New | Self::Finished, Turn::Enters) => Self::Runs,
            (Self::New | Self::Runs, Turn::Finishes) => Self::Finished,
            (Self::New | Self::Runs | Self::Finished, Turn::Leaves(why)) => Self::Left(why),
        };
        *self = next;
        true
    }

    /// Why the node has left it.
    pub(crate) fn left(&self) -> Option<&LeaveReason> {
        if let Self::Left(why) = self { Some(why) } else { None }
    }
}

impl LeaveReason {
    /// Whether the flow is left before it came to an end or a wait.
    pub(crate) fn cuts(&self) -> bool {
        matches!(self, Self::Lost | Self::Released)
    }
}

impl From<Stopped> for LeaveReason {
    /// The flow cannot append any more.
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Lost => Self::Lost,
            Stopped::Refused(reason) => Self::Paused(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The life of a flow to which this happens.
    fn after(turns: impl IntoIterator<Item = Turn>) -> String {
        let mut life = Life::default();
        turns.into_iter().for_each(|turn| _ = life.transition(turn));
        format!("{life:?}")
    }

    #[test]
    fn a_function_is_entered_and_finishes() {
        use Turn::{Enters, Finishes};
        assert_eq!(after([]), "New");
        assert_eq!(after([Enters]), "Runs");
        assert_eq!(after([Enters, Enters]), "Runs");
        assert_eq!(after([Enters, Finishes]), "Finished");
        assert_eq!(after([Enters, Finishes, Finishes]), "Finished");
        assert_eq!(after([Enters, Finishes, Enters]), "Runs");
        // its end was decided, and all is undone
        assert_eq!(after([Finishes]), "Finished");
    }

    #[test]
    fn a_flow_that_was_left_stays_so_for_the_first_reason() {
        use Turn::{Enters, Finishes, Leaves};
        let leaves = || Leaves(LeaveReason::Parked(None));
        assert_eq!(after([leaves()]), "Left(Parked(None))");
        assert_eq!(after([Enters, leaves()]), "Left(Parked(None))");
        assert_eq!(after([Finishes, leaves()]), "Left(Parked(None))");
        for later in [Enters, Finishes, Leaves(LeaveReason::Lost)] {
            assert_eq!(after([leaves(), later]), "Left(Parked(None))");
        }
    }

    #[test]
    fn a_change_is_notified_once() {
        let mut life = Life::default();
        let mut leaves = || life.transition(Turn::Leaves(LeaveReason::Released));
        assert!(leaves());
        assert!(!leaves());
    }
}
