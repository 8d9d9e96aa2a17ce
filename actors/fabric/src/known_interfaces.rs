//! The interfaces that nodes have served: one of them that no node serves now is away, another one is not known.

use std::collections::BTreeSet;

use asyncsteps_executor::iface::FunctionName;
use parking_lot::Mutex;

use crate::call_error::CallError;

/// The most interfaces that are remembered: ten times what a large system has.
const MAX: usize = 10_000;

/// The names of the interfaces that nodes have served, in any version.
#[derive(Debug, Default)]
pub(crate) struct KnownInterfaces(Mutex<BTreeSet<Box<str>>>);

impl KnownInterfaces {
    pub(crate) fn add(&self, iface: &str) {
        let mut known = self.0.lock();
        if known.len() < MAX && !known.contains(iface) {
            known.insert(iface.into());
        }
    }

    /// The error of a call that no node serves. What was never served is not known, unless nothing is.
    pub(crate) fn not_served(&self, function: &FunctionName) -> CallError {
        let known = self.0.lock();
        match known.is_empty() || known.contains(function.iface()) {
            true => CallError::not_served(),
            false => CallError::not_served().not_known(),
        }
    }
}
