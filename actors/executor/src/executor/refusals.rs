//! The requests that did not get to a function: how many for which reason, and the last of them.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use asyncsteps_actors::clock;
use parking_lot::Mutex;

use super::refused::{RefusalReason, Refused};
use crate::channel::Channel;

/// The refused requests that are kept: some 30 KiB.
const KEPT: usize = 100;

/// Caller-chosen names are truncated to this number of characters.
const LONGEST: usize = 100;

/// A request that was refused; returned by [`Executor::refused_requests`](super::Executor::refused_requests).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RefusedRequest {
    /// When.
    pub at: SystemTime,
    /// The function as the caller named it, its first 100 characters; empty if that is not known.
    pub function: String,
    /// The address of the caller, if it has one.
    pub peer: Option<IpAddr>,
    /// Why.
    pub reason: RefusalReason,
    /// The code and text that it was answered with.
    pub refused: Refused,
}

/// The refused requests that an executor keeps and counts.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    counts: [AtomicU64; RefusalReason::ALL.len()],
    last: Mutex<VecDeque<Arc<RefusedRequest>>>,
}

impl Refusals {
    /// A request was refused, or a message that names no function.
    pub(super) fn add(&self, function: &str, channel: &Channel, refused: &Refused) {
        let reason = refused.reason();
        self.counts[reason as usize].fetch_add(1, Ordering::Relaxed);
        let request = Arc::new(RefusedRequest {
            at: clock::wall(),
            function: function.chars().take(LONGEST).collect(),
            peer: channel.peer().map(|peer| peer.ip()),
            reason,
            refused: refused.clone(),
        });
        let mut last = self.last.lock();
        let oldest = if last.len() < KEPT { None } else { last.pop_front() };
        last.push_back(request);
        drop(last);
        drop(oldest);
    }

    /// How many there were for each reason.
    pub(super) fn counts(&self) -> impl Iterator<Item = (RefusalReason, u64)> {
        RefusalReason::ALL
            .into_iter()
            .map(|reason| (reason, self.counts[reason as usize].load(Ordering::Relaxed)))
    }

    /// The last ones, the newest first.
    pub(super) fn last(&self) -> Vec<Arc<RefusedRequest>> {
        let last = self.last.lock();
        last.iter().rev().cloned().collect()
    }
}
