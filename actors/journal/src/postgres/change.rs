//! Changes of flows, and who waits for their answers.

use tokio::sync::oneshot;

use crate::coding::Encoded;
use crate::error::{Error, NotWritten, Refused};
use crate::id::Uid;
use crate::path::Path;
use crate::request::{
    Append, Appended, Cancelled, CancelledBy, Claim, Claimed, Emit, FirstOwner, Resume, Signal,
    Submit, Submitted,
};

/// One request that changes flows.
pub(super) enum Change {
    Submit(AskedChange<Box<(Submit, Encoded)>, Submitted>),
    Append(AskedChange<EncodedBatch, Vec<Result<Appended, NotWritten>>>),
    Signal(AskedChange<(Uid, Signal), ()>),
    /// With its value as it is stored.
    Emit(AskedChange<(Emit, Vec<u8>), Result<(), NotWritten>>),
    Cancel(AskedChange<(Uid, CancelledBy, Option<Path>), Cancelled>),
    Resume(AskedChange<(Uid, Resume), ()>),
    Claim(AskedChange<Claim, Vec<Claimed>>),
}

impl Change {
    /// Whether it goes before what others do not wait for: a flow that a node begins at once, records of flows whose end is
    /// waited for, and what callers ask of flows.
    pub(super) fn is_awaited(&self) -> bool {
        match self {
            Self::Submit(asked) => matches!(asked.request.0.owner, FirstOwner::Node(_)),
            Self::Append(asked) => asked.request.batch.iter().any(|entry| entry.is_awaited),
            Self::Emit(asked) => asked.request.0.is_awaited,
            Self::Signal(_) | Self::Cancel(_) | Self::Resume(_) | Self::Claim(_) => true,
        }
    }
}

/// A batch with its records as bytes.
pub(super) struct EncodedBatch {
    pub(super) batch: Vec<Append>,
    pub(super) records: Vec<Result<Vec<Encoded>, Refused>>,
}

/// A request, and its answer when there is one.
pub(super) struct AskedChange<Q, A> {
    pub(super) request: Q,
    pub(super) answer: Option<Result<A, Error>>,
    asker: oneshot::Sender<Result<A, Error>>,
}

impl<Q, A> AskedChange<Q, A> {
    pub(super) fn new(request: Q) -> (Self, oneshot::Receiver<Result<A, Error>>) {
        let (asker, answer) = oneshot::channel();
        (Self { request, answer: None, asker }, answer)
    }

    /// Whether its answer is waited for.
    pub(super) fn is_wanted(&self) -> bool {
        !self.asker.is_closed()
    }

    /// Sends the answer that was found, or the error of the transaction.
    fn end(self, committed: Result<(), Error>) {
        let answer = committed.and_then(|()| self.answer.unwrap_or(Err(Error::Closed)));
        // the asker may have left
        let _ = self.asker.send(answer);
    }
}

impl Change {
    /// Whether its answer is waited for.
    pub(super) fn is_wanted(&self) -> bool {
        match self {
            Self::Submit(asked) => asked.is_wanted(),
            Self::Append(asked) => asked.is_wanted(),
            Self::Signal(asked) => asked.is_wanted(),
            Self::Emit(asked) => asked.is_wanted(),
            Self::Cancel(asked) => asked.is_wanted(),
            Self::Resume(asked) => asked.is_wanted(),
            Self::Claim(asked) => asked.is_wanted(),
        }
    }

    pub(super) fn end(self, committed: Result<(), Error>) {
        match self {
            Self::Submit(asked) => asked.end(committed),
            Self::Append(asked) => asked.end(committed),
            Self::Signal(asked) => asked.end(committed),
            Self::Emit(asked) => asked.end(committed),
            Self::Cancel(asked) => asked.end(committed),
            Self::Resume(asked) => asked.end(committed),
            Self::Claim(asked) => asked.end(committed),
        }
    }

    /// The entries that it appends.
    pub(super) fn entries(&self) -> &[Append] {
        match self {
            Self::Append(asked) => &asked.request.batch,
            Self::Submit(_)
            | Self::Signal(_)
            | Self::Emit(_)
            | Self::Cancel(_)
            | Self::Resume(_)
            | Self::Claim(_) => &[],
        }
    }

    /// The flows that it changes, but for new ones, and those that it finds.
    pub(super) fn flows(&self) -> Vec<Uid> {
        match self {
            Self::Submit(_) | Self::Claim(_) => Vec::new(),
            Self::Append(asked) => asked.request.batch.iter().map(|entry| entry.uid).collect(),
            Self::Signal(asked) => vec![asked.request.0],
            Self::Emit(asked) => vec![asked.request.0.uid],
            Self::Cancel(asked) => vec![asked.request.0],
            Self::Resume(asked) => vec![asked.request.0],
        }
    }
}
