//! The stored forms of values for which tables have no type.

use crate::record::Failure;
use crate::request::{Append, CancelledBy, Disposition, FlowState};
use crate::time::Timestamp;

/// The states of flows that wait, in SQL: the same as [`FlowState::waits`].
macro_rules! waits {
    () => {
        "state IN (0, 1, 2, 4, 5, 6)"
    };
}
pub(crate) use waits;

/// The additions of format 2 in each database, except the row of the journal: the times that depend on no clock, and
/// the caller that a flow counts for. Flows that programs with format 1 have stored count for none. The first parameter
/// is a column of the journal itself, the second one the type of a caller's name. SQLite reads `BIGINT` as its
/// `INTEGER`, and takes the state of a flow that waits out of the index, where it has it, instead of out of the table.
macro_rules! second_format {
    ($column:literal, $text:literal) => {
        concat!(
            "CREATE TABLE journal (",
            $column,
            "
                wall BIGINT,
                passed BIGINT NOT NULL,
                seen BIGINT NOT NULL,
                doubt_from BIGINT,
                doubt_since BIGINT
            );
            ALTER TABLE flow ADD COLUMN due_passed BIGINT;
            ALTER TABLE flow ADD COLUMN ended_seen BIGINT;
            ALTER TABLE flow ADD COLUMN cancel_code TEXT;
            ALTER TABLE flow ADD COLUMN cancel_text TEXT;
            ALTER TABLE flow ADD COLUMN caller ",
            $text,
            ";
            UPDATE flow SET ended_seen = ended WHERE ended IS NOT NULL;
            DROP INDEX flow_ended;
            CREATE INDEX flow_ended ON flow (ended_seen) WHERE ended_seen IS NOT NULL;
            CREATE INDEX flow_due_passed ON flow (due_passed)
                WHERE state = 4 AND due_passed IS NOT NULL;
            CREATE INDEX flow_waiting ON flow (caller, state) WHERE caller IS NOT NULL AND ",
            $crate::stored::waits!(),
            ";"
        )
    };
}
pub(crate) use second_format;

/// The additions of format 4 in each database: whom a flow acts for, and indices by which flows of a user and of a
/// caller's key are found. The columns are filled by each storage from the first records.
pub(crate) const FOURTH_FORMAT: &str = "
    ALTER TABLE flow ADD COLUMN local_id TEXT;
    CREATE INDEX flow_local_id ON flow (local_id, number) WHERE local_id IS NOT NULL;
    DROP INDEX flow_key;
    CREATE UNIQUE INDEX flow_key ON flow (key, scope) WHERE key IS NOT NULL;
";

/// From this format on, requests that have begun in one go on in the next.
pub(crate) const GOES_ON: i64 = 3;

const STATES: [FlowState; 8] = [
    FlowState::Ready,
    FlowState::New,
    FlowState::Suspect,
    FlowState::Running,
    FlowState::Parked,
    FlowState::Paused,
    FlowState::Dead,
    FlowState::Ended,
];

/// The states of flows that have not ended.
pub(crate) const OPEN: &[FlowState] = STATES.split_last().unwrap().1;

/// The state with this number.
pub(crate) fn state(number: i64) -> Option<FlowState> {
    STATES.into_iter().find(|state| *state as i64 == number)
}

/// Who or what has cancelled a flow, as three columns: a name, or the code and the text of an error.
pub(crate) fn cancelled_by(by: &CancelledBy) -> (Option<&str>, Option<&str>, Option<&str>) {
    match by {
        CancelledBy::Person(name) => (Some(name), None, None),
        CancelledBy::Limit(Failure { code, text }) => (None, Some(code), text.as_deref()),
    }
}

/// The same from the columns.
pub(crate) fn cancelled(
    by: Option<String>,
    code: Option<String>,
    text: Option<String>,
) -> CancelledBy {
    match code {
        Some(code) => CancelledBy::Limit(Failure { code, text }),
        None => CancelledBy::Person(by.unwrap_or_default()),
    }
}

/// Numbers of databases have a sign; ours stop where they would get one.
pub(crate) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number from a column.
pub(crate) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// A time as one column.
pub(crate) fn millis(time: Timestamp) -> i64 {
    int(time.as_millis())
}

/// A time from a column.
pub(crate) fn timestamp(millis: i64) -> Timestamp {
    Timestamp::from_millis(unsigned(millis))
}

/// Whether a batch lets others have one of its flows.
pub(crate) fn gives_up(batch: &[Append]) -> bool {
    batch.iter().any(|entry| entry.then != Disposition::Keep)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_has_the_number_of_its_place() {
        for (number, expected) in (0..).zip(STATES) {
            assert_eq!(state(number), Some(expected));
        }
        assert_eq!(state(8), None);
    }

    #[test]
    fn sql_counts_the_states_that_wait() {
        let waiting = STATES.iter().filter(|state| state.waits());
        let numbers: Vec<_> = waiting.map(|state| (*state as i64).to_string()).collect();
        assert_eq!(waits!(), format!("state IN ({})", numbers.join(", ")));
    }
}
