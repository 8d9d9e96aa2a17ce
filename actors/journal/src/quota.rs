//! Quotas of callers: how many flows may wait on behalf of each.

use std::collections::HashMap;

use crate::error::Refused;
use crate::request::{CallerQuota, FlowState};

/// Callers whose flows are counted together: those with names from `from` on, and before `till`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallerRange<'a> {
    /// Also what people call them.
    pub(crate) from: &'a str,
    pub(crate) till: String,
    pub(crate) most: u64,
}

impl CallerQuota {
    /// The ranges of callers that count for it.
    pub(crate) fn counted(&self) -> impl Iterator<Item = CallerRange<'_>> {
        // no text has a character before U+0001
        let alone = CallerRange {
            from: &self.caller,
            till: format!("{}\u{1}", self.caller),
            most: self.most,
        };
        let group = self.group.as_ref().map(|group| CallerRange {
            from: &group.prefix,
            till: format!("{}\u{7f}", group.prefix),
            most: group.most,
        });
        std::iter::once(alone).chain(group)
    }
}

impl FlowState {
    /// Whether a flow has not ended, and no node runs it: the nodes bound what runs, and a quota the rest.
    pub(crate) const fn waits(self) -> bool {
        !matches!(self, Self::Running | Self::Ended)
    }
}

/// How many flows wait, as far as they were counted in one transaction.
#[derive(Debug, Default)]
pub(crate) struct WaitingCounts(HashMap<String, u64>);

impl WaitingCounts {
    pub(crate) fn get(&self, counted: &CallerRange<'_>) -> Option<u64> {
        self.0.get(counted.from).copied()
    }

    pub(crate) fn set(&mut self, from: &str, waiting: u64) {
        self.0.insert(from.to_owned(), waiting);
    }

    /// Whether one more may be stored. A range that was not counted has 0.
    pub(crate) fn check(&self, quota: &CallerQuota) -> Result<(), Refused> {
        for counted in quota.counted() {
            if self.get(&counted).unwrap_or_default() >= counted.most {
                let (caller, most) = (counted.from.trim_end().to_owned(), counted.most);
                return Err(Refused::TooManyWaiting { caller, most });
            }
        }
        Ok(())
    }

    /// One more was stored in the transaction that has counted.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn add(&mut self, quota: &CallerQuota, state: FlowState) {
        for counted in quota.counted().filter(|_| state.waits()) {
            *self.0.entry(counted.from.to_owned()).or_default() += 1;
        }
    }
}
