//! What the steps of a flow need is away for a while: the flow waits for it, and no operator is needed.

use std::io;

use asyncsteps_core::{Error, codes};
use asyncsteps_executor::recorder::{Kind, OUTCOME_UNKNOWN};
use asyncsteps_journal::is_store_away;
use asyncsteps_journal::record::IntentForm;

use crate::flow::DurableFlow;
use crate::step::DurableStep;

/// Whether the same may succeed later: something was not reached, did not answer in time or refused it because of a
/// limit.
pub(crate) fn is_away(error: &Error) -> bool {
    const AWAY: [&str; 5] = [
        codes::CONNECT_ERROR,
        codes::COMM_ERROR,
        codes::DEFENSE_REJECTED,
        codes::TIMEOUT,
        OUTCOME_UNKNOWN,
    ];
    const LOST: [io::ErrorKind; 10] = [
        io::ErrorKind::BrokenPipe,
        io::ErrorKind::ConnectionAborted,
        io::ErrorKind::ConnectionRefused,
        io::ErrorKind::ConnectionReset,
        io::ErrorKind::HostUnreachable,
        io::ErrorKind::NetworkDown,
        io::ErrorKind::NetworkUnreachable,
        io::ErrorKind::NotConnected,
        io::ErrorKind::TimedOut,
        io::ErrorKind::UnexpectedEof,
    ];
    AWAY.contains(&error.code())
        || error.find::<io::Error>().is_some_and(|error| LOST.contains(&error.kind()))
        || is_store_away(error)
}

impl DurableStep {
    /// Puts the flow aside if the body has failed because its store is away: it begins anew later, with the same key.
    pub(crate) fn waits_for_store(&self, error: &Error) -> bool {
        let may_begin_anew =
            matches!(self.step.kind(), Some(Kind::Recorded | Kind::Repeatable | Kind::Transacted));
        let waits = may_begin_anew
            && is_store_away(error)
            && !self.flow.is_interrupted()
            && !self.flow.runs_once();
        if waits {
            let reason = format!("{} needs a store that is away: {error}", self.path);
            self.flow.leave(self.flow.tries_again(&self.path, reason));
        }
        waits
    }
}

impl DurableFlow {
    /// Whether a body is in flight that cannot begin anew.
    fn runs_once(&self) -> bool {
        let records = self.replay.borrow();
        let mut all = records.all().map(|(_, at)| at);
        all.any(|at| at.end.is_none() && at.open_form() == Some(IntentForm::Once))
    }
}
