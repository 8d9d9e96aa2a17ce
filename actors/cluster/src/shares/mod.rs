//! Shares of nodes in a limit, and waiting for room in them.

mod keeper;
mod line;

pub(crate) use keeper::{Keeper, Standing, Units};
pub(crate) use line::{EntryAttempt, EntryQueue};
