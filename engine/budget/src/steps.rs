//! A budget for steps: its refusals are their errors, and its permits their results.

use asyncsteps_core::{Arg, Error, codes};

use super::{BudgetRefusal, Permit};

/// A permit can be the result of a step that awaits it.
impl Arg for Permit {}

impl From<BudgetRefusal> for Error {
    fn from(refusal: BudgetRefusal) -> Self {
        Self::with_info(codes::DEFENSE_REJECTED, refusal.to_string())
    }
}
