//! Events that flows emit.

use std::collections::HashSet;

use crate::error::{Error, NotWritten};
use crate::head::EmittedSoFar;
use crate::id::Uid;
use crate::limits::Limits;
use crate::path::Path;
use crate::request::{Emit, Emitted};
use crate::seal::Seal;
use crate::sealed::Place;
use crate::time::Timestamp;

/// The events of a flow.
#[derive(Default)]
pub(super) struct FlowEvents {
    /// In the order of their numbers, which count from 1.
    stored: Vec<StoredEvent>,
    /// Their runs, steps and keys.
    known: HashSet<(u32, Path, String)>,
    bytes: u64,
}

struct StoredEvent {
    at: Timestamp,
    path: Path,
    key: String,
    value: Vec<u8>,
}

impl FlowEvents {
    /// Adds an event, with its value as it is stored, unless it is known.
    pub(super) fn add(
        &mut self,
        emit: Emit,
        (value, run): (Vec<u8>, u32),
        limits: &Limits,
        at: Timestamp,
    ) -> Result<(), NotWritten> {
        let id = (run, emit.path.clone(), emit.key.clone());
        if self.known.contains(&id) {
            return Ok(());
        }
        let so_far = EmittedSoFar { count: self.stored.len() as u64, bytes: self.bytes };
        self.bytes = so_far.with(emit.bytes(), limits)?.bytes;
        self.known.insert(id);
        let Emit { path, key, .. } = emit;
        self.stored.push(StoredEvent { at, path, key, value });
        Ok(())
    }

    /// The events of this flow after a number, up to so many.
    pub(super) fn after(
        &self,
        uid: Uid,
        after: u64,
        most: usize,
        seal: &Seal,
    ) -> Result<Vec<Emitted>, Error> {
        let read = |(number, event): (u64, &StoredEvent)| {
            let StoredEvent { at, path, key, value } = event;
            let place = Place::Event { flow: uid, path: path.as_str(), key };
            Ok(Emitted { number, at: *at, value: seal.open_value(&place, value)? })
        };
        let numbered = (1..).zip(&self.stored);
        let later = numbered.skip(usize::try_from(after).unwrap_or(usize::MAX));
        later.take(most).map(read).collect()
    }
}
