//! Why a journal says no.

use std::error::Error as StdError;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::id::{Epoch, Incarnation, Uid};
use crate::path::Path;

/// An error of a journal, and what may be done about it: see [`repeat`](Self::repeat).
///
/// Its `Debug` is for people, too: a `main` that returns it shows what went wrong, and why.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request cannot be done, and nothing of it was.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The journal was not reached, so nothing was done.
    #[error("the journal cannot be reached")]
    Unavailable(#[source] Cause),
    /// The request may have been done or not.
    #[error("the answer of the journal was lost")]
    AnswerLost(#[source] Cause),
    /// The disk is full. Nothing was done.
    #[error("no room is left for the journal")]
    DiskFull(#[source] Cause),
    /// The file cannot be written. Nothing was done.
    #[error("the journal can only be read")]
    ReadOnly(#[source] Cause),
    /// The file is damaged, or it is no journal.
    #[error("the journal is damaged, or the file is no journal")]
    Damaged(#[source] Cause),
    /// Another process has locked the file, and did not end that in time. Nothing was done.
    #[error(
        "another process has locked the file of the journal, such as a shell of sqlite3 or a backup with an open \
         transaction: end that"
    )]
    Locked(#[source] Cause),
    /// Another error of the storage. Nothing was done.
    #[error("the journal failed")]
    Storage(#[source] Cause),
    /// Another process has the file.
    #[error("{} is in use by {holder}", file.display())]
    InUse {
        /// The file.
        file: PathBuf,
        /// The process.
        holder: String,
    },
    /// The file has no tables, and another file is left of a journal that was in it. Nothing was changed.
    #[error(
        "{} is empty or was removed, and {} is left of {was} that was in it: put the file back, or remove {} to \
         begin with an empty journal",
        file.display(),
        left.display(),
        left.display()
    )]
    Emptied {
        /// The file.
        file: PathBuf,
        /// The journal that was in it, for people.
        was: String,
        /// The file that is left of it.
        left: PathBuf,
    },
    /// A later program made the tables of the journal.
    #[error("the journal has the format {found}, and this program knows those up to {known}")]
    NewerFormat {
        /// The format of the journal.
        found: i64,
        /// The highest one that this program knows.
        known: i64,
    },
    /// Programs that made the journal in another format have left requests open. Nothing was changed.
    #[error(
        "{open} requests of the journal have not ended, and it has the format {found}: the programs that began them \
         have to end them first, because this one has the format {known}"
    )]
    OpenInFormat {
        /// How many requests have not ended.
        open: i64,
        /// The format of the journal.
        found: i64,
        /// The format of this program.
        known: i64,
    },
    /// A record that this program does not understand, or that its keys do not open.
    #[error("record {sequence} of flow {uid}, written by {program}, cannot be read: {reason}")]
    UnknownRecord {
        /// The flow.
        uid: Uid,
        /// The record's number.
        sequence: u64,
        /// The program that wrote it, by its own words.
        program: String,
        /// The part that is not understood.
        reason: String,
    },
    /// A value that this program does not understand, or that its keys do not open. Nothing was done.
    #[error("{what} cannot be read: {reason}")]
    UnknownValue {
        /// What has the value.
        what: String,
        /// The part that is not understood.
        reason: String,
    },
    /// The journal was closed. Nothing was done.
    #[error("the journal is closed")]
    Closed,
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        let mut cause = self.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

/// The error behind an error.
pub type Cause = Arc<dyn StdError + Send + Sync>;

/// What to do after a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "each answer needs its own behaviour")]
pub enum Repeat {
    /// Nothing was done, and the same request would be answered the same.
    Never,
    /// Nothing was done. The same request, or another one, may be made later.
    Later,
    /// It may have been done: the same request has to be repeated until it is answered, and no effect of
    /// its flows may start meanwhile.
    UntilAnswered,
}

impl Error {
    /// What to do with the request.
    #[must_use]
    pub const fn repeat(&self) -> Repeat {
        match self {
            Self::Refused(_)
            | Self::Damaged(_)
            | Self::InUse { .. }
            | Self::Emptied { .. }
            | Self::NewerFormat { .. }
            | Self::OpenInFormat { .. }
            | Self::UnknownRecord { .. }
            | Self::UnknownValue { .. }
            | Self::Closed => Repeat::Never,
            Self::Unavailable(_)
            | Self::DiskFull(_)
            | Self::ReadOnly(_)
            | Self::Locked(_)
            | Self::Storage(_) => Repeat::Later,
            Self::AnswerLost(_) => Repeat::UntilAnswered,
        }
    }
}

/// A request that cannot be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// There is no such flow: there never was, or it was trimmed.
    #[error("there is no flow {0}")]
    NoFlow(Uid),
    /// The flow has ended.
    #[error("the flow {0} has ended")]
    HasEnded(Uid),
    /// The flow is neither paused nor a dead letter.
    #[error("the flow {0} is neither paused nor a dead letter")]
    NotStopped(Uid),
    /// The flow cannot begin anew, because a step was done or begun, and its undo is not recorded.
    #[error(
        "the flow {uid} cannot begin anew: {path} was done or begun, and is not undone; cancel the flow, \
         which undoes it, and submit it again"
    )]
    NotUndone {
        /// The flow.
        uid: Uid,
        /// The first such step, in the order of paths.
        path: Path,
    },
    /// The flow cannot go on without a record, because it has undone steps after it.
    #[error(
        "the flow {uid} has begun to undo at {path}, so no record up to there can be removed; let it \
         continue, or cancel it"
    )]
    HasUndone {
        /// The flow.
        uid: Uid,
        /// Where the newest record of an undo is.
        path: Path,
    },
    /// The key was used with another template or other parameters.
    #[error("the key `{key}` was used for something else, by the flow {uid}")]
    KeyInUse {
        /// The key.
        key: String,
        /// The flow that has it.
        uid: Uid,
    },
    /// The lease of the node has ended, or it never had one.
    #[error(
        "node {0} has no lease: it did not renew it in time, or the clock of the journal has jumped ahead while \
         another node began"
    )]
    NoLease(Incarnation),
    /// Something has more bytes or items than it may.
    #[error("the {what} is larger than {limit}")]
    TooLarge {
        /// The kind of thing.
        what: &'static str,
        /// Its limit, in bytes or items.
        limit: usize,
    },
    /// The flow has as many signals as it may.
    #[error("{0} signals wait in the flow already")]
    TooManySignals(u64),
    /// The signals of the flow have as many bytes as they may, or would have more with this one.
    #[error("with this signal, more than {0} bytes would wait in the flow")]
    TooManySignalBytes(u64),
    /// As many flows of a caller wait as its quota allows.
    #[error(
        "{most} requests of {caller} wait already, and no more may: repeat this one when some of them have \
         ended, or cancel some"
    )]
    TooManyWaiting {
        /// The caller, or the group of callers.
        caller: String,
        /// How many of its flows may wait.
        most: u64,
    },
    /// A name is no schema of a database for journals.
    #[error("`{0}` is no name of a schema: it needs up to 40 lower-case letters, digits and `_`")]
    NotSchema(String),
    /// A record has a number beyond 2^62.
    #[error("the record number {0} is too high")]
    NumberTooHigh(u64),
    /// The system gives no random bytes, which a value needs to be sealed.
    #[error("nothing can be sealed, because the system gives no random bytes")]
    NotSealed,
    /// A text has a character that not all journals can store.
    #[error("the {0} contains the character U+0000")]
    NulCharacter(&'static str),
}

/// Why one entry of a batch was not written. Nothing of the entry was; the others of its batch were.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotWritten {
    /// The flow is no longer of this owner: another one has it, it was released, or it has ended. The
    /// owner has to drop the flow, as if it had crashed.
    #[error("the flow is not of this owner; it is at epoch {epoch}")]
    Stale {
        /// The epoch of the flow.
        epoch: Epoch,
    },
    /// The flow got a signal or a cancel that the owner has not seen, and the entry depends on that.
    #[error("the inbox of the flow has news, up to number {inbox}")]
    Unseen {
        /// The highest number in the inbox.
        inbox: u64,
    },
    /// The flow has as many records as it may.
    #[error("the flow has {0} records already")]
    TooManyRecords(u64),
    /// The flow has emitted as many events as it may, or as many bytes of them.
    #[error("the request has emitted {events} events of {bytes} bytes, and may not emit more")]
    TooManyEvents {
        /// How many it has emitted.
        events: u64,
        /// Bytes of their steps, keys and values.
        bytes: u64,
    },
    /// Some of the records' numbers are taken by others.
    #[error("some of the record numbers from {first} are taken")]
    NumbersTaken {
        /// The number of the entry's first record.
        first: u64,
    },
    /// The entry cannot be written as it is.
    #[error(transparent)]
    Refused(#[from] Refused),
}
