//! The answers to calls that may come again: those with a key of their caller.

use std::collections::{HashMap, VecDeque};

use asyncsteps_core::{Error, codes};
use asyncsteps_executor::Caller;
use asyncsteps_journal::Path;
use asyncsteps_journal::limits::PATH_BYTES;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::writer::RecordTicket;

/// How many answers to calls with a key an entity keeps, the newest ones.
pub const ANSWERS: usize = 1000;

/// How many bytes they may have in all: they are loaded with the entity.
const BYTES: usize = 1 << 20;

/// The identity of a call.
pub(super) struct CallKey {
    /// Where its answer is recorded: its user, function and key.
    path: Path,
    /// A digest of the canonical form of its parameters, which is recorded, and one of the parameters as they are, which
    /// was recorded by earlier programs.
    digests: [u64; 2],
}

impl CallKey {
    /// The call of a function with a key, and its parameters in canonical form and as they are; InvalidRequest if the key
    /// and the names of its user are too long to be recorded.
    pub(super) fn new(
        root: &Path,
        caller: &Caller,
        (function, key): (&str, &str),
        params: [&Map<String, Value>; 2],
    ) -> Result<Self, Error> {
        let user = caller.user().map(|user| (user.local_id(), user.global_id()));
        // quoted, so that no user, function and key are taken for other ones
        let path = root.key(&format!("{user:?} {function} {key}"));
        if path.as_str().len() > PATH_BYTES {
            let info = "The key and the names of its user are too long";
            return Err(Error::with_info(codes::INVALID_REQUEST, info));
        }
        Ok(Self { path, digests: params.map(digest) })
    }

    /// Where its answer is recorded, and that.
    pub(super) fn answered(self, result: Value) -> (Path, StoredAnswer) {
        (self.path, StoredAnswer { digest: self.digests[0], result })
    }
}

/// A digest that is the same in all versions: FNV-1a. Only calls of one user are compared.
fn digest(params: &Map<String, Value>) -> u64 {
    let bytes = serde_json::to_vec(params).unwrap_or_default();
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// An answer, as it is recorded.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredAnswer {
    digest: u64,
    result: Value,
}

/// Where an answer is recorded.
struct Recorded {
    path: Path,
    bytes: usize,
    ticket: RecordTicket,
}

/// The answers that an entity keeps.
#[derive(Default)]
pub(super) struct Answers {
    answers: HashMap<Path, StoredAnswer>,
    /// The same, oldest first.
    order: VecDeque<Recorded>,
    bytes: usize,
}

impl Answers {
    /// The answer that a call has got before.
    pub(super) fn find(&self, call: &CallKey) -> Result<Option<Value>, Error> {
        let Some(answer) = self.answers.get(&call.path) else { return Ok(None) };
        if !call.digests.contains(&answer.digest) {
            let info = "The key was used for a call with other parameters";
            return Err(Error::with_info(codes::INVALID_REQUEST, info));
        }
        Ok(Some(answer.result.clone()))
    }

    /// Keeps an answer that was recorded at this path with this size.
    pub(super) fn keep(
        &mut self,
        path: Path,
        (answer, size): (StoredAnswer, usize),
        ticket: RecordTicket,
    ) {
        let bytes = size + path.as_str().len();
        self.answers.insert(path.clone(), answer);
        self.bytes += bytes;
        self.order.push_back(Recorded { path, bytes, ticket });
    }

    /// Forgets the oldest ones beyond the limits; returns what is recorded of them.
    pub(super) fn forget_oldest(&mut self) -> Vec<RecordTicket> {
        let mut forgotten = Vec::new();
        while self.order.len() > ANSWERS || self.bytes > BYTES {
            let Some(oldest) = self.order.pop_front() else { break };
            self.bytes -= oldest.bytes;
            self.answers.remove(&oldest.path);
            forgotten.push(oldest.ticket);
        }
        forgotten
    }
}
