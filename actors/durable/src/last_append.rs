//! The append that ends what a node has of a flow.

use asyncsteps_journal::request::{Append, Claimed, Condition, Disposition};

/// What becomes of a flow of which the node stores nothing else.
pub(crate) fn last_append(Claimed { uid, epoch, .. }: Claimed, then: Disposition) -> Append {
    Append {
        uid,
        epoch,
        version: 0,
        first: 0,
        records: Vec::new(),
        replaces: Vec::new(),
        takes: Vec::new(),
        seen: 0,
        condition: Condition::None,
        then,
        is_awaited: false,
    }
}
