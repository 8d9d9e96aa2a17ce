//! Requests are checked before they reach a storage: sizes, and texts that a storage cannot keep.

use crate::coding::{Encoded, at_most, encoded};
use crate::error::{Error, NotWritten, Refused};
use crate::head::FlowHead;
use crate::id::{RecordId, Uid};
use crate::limits::{BATCH, EVENT_BYTES, LIST_ITEMS, PATH_BYTES, TAG_BYTES, TAGS, TEXT_BYTES};
use crate::path::Path;
use crate::record::{Event, Failure, Record};
use crate::request::{Append, Appended, CancelledBy, Disposition, Emit, Resume, Submit, Submitted};
use crate::seal::Seal;
use crate::sealed::Place;

/// The highest number of an entry's first record, so that each record has a number with a sign.
const MAX_NUMBER: u64 = 1 << 62;

/// A text that is stored as text.
pub(crate) fn text(what: &'static str, text: &str) -> Result<(), Refused> {
    at_most(what, text.len(), TEXT_BYTES)?;
    if text.contains('\0') { Err(Refused::NulCharacter(what)) } else { Ok(()) }
}

/// A schedule that is to be stored beside so many of other names.
pub(crate) fn schedule(name: &str, others: usize) -> Result<(), Refused> {
    text("name", name)?;
    at_most("list of schedules", others + 1, BATCH)
}

/// Who or what cancels a flow.
pub(crate) fn cancel(by: &CancelledBy) -> Result<(), Refused> {
    match by {
        CancelledBy::Person(name) => text("name", name),
        CancelledBy::Limit(Failure { code, text: said }) => {
            text("code", code)?;
            text("text", said.as_deref().unwrap_or_default())
        }
    }
}

/// How a flow goes on.
pub(crate) fn resume(how: &Resume) -> Result<(), Refused> {
    if let Resume::Signal(signal) = how { text("name", &signal.name) } else { Ok(()) }
}

/// The first record of a flow, as it is stored.
pub(crate) fn submit(submit: &Submit, seal: &Seal) -> Result<Encoded, Refused> {
    text("template", &submit.started.template)?;
    if let Some(local_id) = submit.started.local_id() {
        text("local id of the user", &local_id)?;
    }
    if let Some(key) = &submit.key {
        text("scope", &key.scope)?;
        text("key", &key.key)?;
    }
    at_most("list of tags", submit.tags.len(), TAGS)?;
    for tag in &submit.tags {
        text("tag", tag)?;
        at_most("tag", tag.len(), TAG_BYTES)?;
    }
    if let Some(quota) = &submit.quota {
        text("caller", &quota.caller)?;
    }
    let path = Path::template(&submit.started.template);
    let first = encoded(&Record::new(path, Event::Started(submit.started.clone())))?;
    first.sealed(seal, submit.uid, RecordId::FIRST)
}

/// The answer to a submit whose uid or key a flow has: `first` is the first record of that flow.
pub(crate) fn known(
    submit: &Submit,
    uid: Uid,
    first: Option<&Encoded>,
    seal: &Seal,
) -> Result<Submitted, Error> {
    let new = &submit.started;
    // of two seals of one value the bytes differ
    let first = first.map(|first| first.opened(seal, uid, RecordId::FIRST)).transpose();
    let what = || format!("the request {uid} with the same key");
    let is_same = match first.map_err(|reason| Error::UnknownValue { what: what(), reason })? {
        Some(Record { event: Event::Started(old), .. }) => {
            old.template == new.template && old.parameters == new.parameters
        }
        _ => false,
    };
    if is_same {
        return Ok(Submitted::Known(uid));
    }
    let key = submit.key.as_ref().map_or_else(|| submit.uid.to_string(), |key| key.key.clone());
    Err(Refused::KeyInUse { key, uid }.into())
}

/// Flows that are to be removed.
pub(crate) const fn remove(uids: &[Uid]) -> Result<(), Refused> {
    at_most("list", uids.len(), BATCH)
}

/// A batch as a whole.
pub(crate) const fn batch(batch: &[Append]) -> Result<(), Refused> {
    at_most("batch", batch.len(), BATCH)
}

/// The answer to an entry, `known` of whose records are known: all of them if it was written
/// before.
pub(crate) fn repeated(
    entry: &Append,
    known: u64,
    head: &FlowHead,
) -> Result<Option<Appended>, NotWritten> {
    match known {
        0 => Ok(None),
        all if all == entry.records.len() as u64 => Ok(Some(Appended { inbox: head.inbox })),
        // it was written, and a later owner has replaced some of them
        _ if entry.epoch < head.epoch => Err(NotWritten::Stale { epoch: head.epoch }),
        _ => Err(NotWritten::NumbersTaken { first: entry.first }),
    }
}

/// The records of an entry, as they are stored.
pub(crate) fn append(entry: &Append, seal: &Seal) -> Result<Vec<Encoded>, Refused> {
    at_most("list", entry.records.len(), LIST_ITEMS)?;
    if entry.first > MAX_NUMBER {
        return Err(Refused::NumberTooHigh(entry.first));
    }
    at_most("list", entry.replaces.len(), LIST_ITEMS)?;
    at_most("list", entry.takes.len(), LIST_ITEMS)?;
    if let Disposition::Pause(reason) = &entry.then {
        text("reason", reason)?;
    }
    let numbered = (entry.first..).zip(&entry.records);
    let stored = numbered.map(|(sequence, record)| {
        let id = RecordId { epoch: entry.epoch, sequence };
        encoded(record)?.sealed(seal, entry.uid, id)
    });
    stored.collect()
}

/// The value of an event, as it is stored.
pub(crate) fn emit(emit: &Emit, seal: &Seal) -> Result<Vec<u8>, Refused> {
    text("key", &emit.key)?;
    at_most("path", emit.path.as_str().len(), PATH_BYTES)?;
    at_most("event", emit.value.len(), EVENT_BYTES)?;
    let place = Place::Event { flow: emit.uid, path: emit.path.as_str(), key: &emit.key };
    seal.seal_value(&place, &emit.value)
}

/// How many to return, of as many as were asked for.
pub(crate) fn limit(asked: usize) -> usize {
    asked.min(BATCH)
}
