//! Records as bytes.

use minicbor::{Decode, Encode};

use crate::error::Refused;
use crate::id::{RecordId, Uid};
use crate::limits::{LIST_ITEMS, PATH_BYTES, RECORD_BYTES, TEXT_BYTES, TRACE_BYTES};
use crate::path::Path;
use crate::record::{Cause, Ending, Event, Failure, Record};
use crate::seal::Seal;
use crate::sealed::Place;

/// The kind of an event. The numbers are those on disk: a number is never used for another kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EventKind {
    Started = 1,
    Intent = 2,
    Done = 3,
    Failed = 4,
    Outcome = 5,
    Timer = 6,
    Signal = 7,
    Keys = 8,
    Iteration = 9,
    Unwinding = 10,
    Ended = 11,
}

/// The kind of the record of a step that is done, on disk.
pub(crate) const DONE: u8 = EventKind::Done as u8;

/// Kinds that end the effect of an earlier intent at the same path.
pub(crate) const CLOSING: [EventKind; 3] = [EventKind::Done, EventKind::Failed, EventKind::Outcome];

impl EventKind {
    /// Whether a flow that writes it got further: after a crash it does not come here again.
    pub(crate) const fn is_progress(self) -> bool {
        match self {
            Self::Done
            | Self::Failed
            | Self::Outcome
            | Self::Signal
            | Self::Iteration
            | Self::Ended => true,
            Self::Started | Self::Intent | Self::Timer | Self::Keys | Self::Unwinding => false,
        }
    }
}

/// A record as it is on disk.
#[derive(Clone, Debug)]
pub(crate) struct Encoded {
    pub(crate) path: Path,
    pub(crate) kind: u8,
    pub(crate) body: Vec<u8>,
}

/// The record as bytes.
///
/// # Errors
/// If it is too large.
pub(crate) fn encoded(record: &Record) -> Result<Encoded, Refused> {
    at_most("path", record.path.as_str().len(), PATH_BYTES)?;
    check(&record.event)?;
    let body = match &record.event {
        Event::Started(event) => bytes(event),
        Event::Intent(event) => bytes(event),
        Event::Done(event) => bytes(event),
        Event::Failed(event) => bytes(event),
        Event::Outcome(event) => bytes(event),
        Event::Timer(event) => bytes(event),
        Event::Signal(event) => bytes(event),
        Event::Keys(event) => bytes(event),
        Event::Iteration(event) => bytes(event),
        Event::Unwinding(event) => bytes(event),
        Event::Ended(event) => bytes(event),
    };
    at_most("record", body.len(), RECORD_BYTES)?;
    Ok(Encoded { path: record.path.clone(), kind: record.event.kind() as u8, body })
}

/// Looks at all texts and lists of an event.
fn check(event: &Event) -> Result<(), Refused> {
    match event {
        Event::Started(event) => {
            text(&event.template)?;
            text(event.user.as_deref().unwrap_or_default())?;
            at_most("trace", event.trace.as_ref().map_or(0, String::len), TRACE_BYTES)?;
            text(event.schedule.as_deref().unwrap_or_default())
        }
        Event::Intent(event) => {
            at_most("list", event.locks.len(), LIST_ITEMS)?;
            event.locks.iter().try_for_each(|lock| {
                text(&lock.lock)?;
                text(&lock.key)
            })
        }
        Event::Failed(event) => caused(&event.failure, event.cause.as_ref()),
        Event::Outcome(event) => ending(&event.ending),
        Event::Ended(event) => ending(&event.ending),
        Event::Signal(event) => text(&event.name),
        Event::Keys(event) => {
            at_most("list", event.keys.len(), LIST_ITEMS)?;
            event.keys.iter().try_for_each(|key| text(key))
        }
        Event::Unwinding(event) => caused(&event.failure, event.cause.as_ref()),
        Event::Done(_) | Event::Timer(_) | Event::Iteration(_) => Ok(()),
    }
}

const fn text(text: &str) -> Result<(), Refused> {
    at_most("text", text.len(), TEXT_BYTES)
}

fn caused(error: &Failure, cause: Option<&Cause>) -> Result<(), Refused> {
    text(cause.map_or("", |cause| &cause.code))?;
    failure(error)
}

fn failure(failure: &Failure) -> Result<(), Refused> {
    text(&failure.code)?;
    text(failure.text.as_deref().unwrap_or_default())
}

fn ending(ending: &Ending) -> Result<(), Refused> {
    match ending {
        Ending::Failed(error) => failure(error),
        Ending::Completed(_) | Ending::Cancelled => Ok(()),
    }
}

pub(crate) const fn at_most(
    what: &'static str,
    length: usize,
    limit: usize,
) -> Result<(), Refused> {
    if length > limit { Err(Refused::TooLarge { what, limit }) } else { Ok(()) }
}

impl Encoded {
    /// The same as it is stored under a name in a flow.
    pub(crate) fn sealed(self, seal: &Seal, flow: Uid, id: RecordId) -> Result<Self, Refused> {
        let Self { path, kind, body } = self;
        let body = seal.seal(&Place::Record { flow, id, kind, path: &path }, body)?;
        Ok(Self { path, kind, body })
    }

    /// The record that is stored under a name in a flow, or why it cannot be read: the keys do not open it, or a later
    /// program wrote it.
    pub(crate) fn opened(&self, seal: &Seal, flow: Uid, id: RecordId) -> Result<Record, String> {
        let Self { path, kind, body } = self;
        self.decoded(&seal.open(&Place::Record { flow, id, kind: *kind, path }, body)?)
    }

    /// The record with this body.
    pub(crate) fn decoded(&self, body: &[u8]) -> Result<Record, String> {
        let event = match self.kind {
            1 => Event::Started(read(body)?),
            2 => Event::Intent(read(body)?),
            3 => Event::Done(read(body)?),
            4 => Event::Failed(read(body)?),
            5 => Event::Outcome(read(body)?),
            6 => Event::Timer(read(body)?),
            7 => Event::Signal(read(body)?),
            8 => Event::Keys(read(body)?),
            9 => Event::Iteration(read(body)?),
            10 => Event::Unwinding(read(body)?),
            11 => Event::Ended(read(body)?),
            kind => return Err(format!("it is of the kind {kind}")),
        };
        Ok(Record { path: self.path.clone(), event })
    }
}

impl Event {
    pub(crate) const fn kind(&self) -> EventKind {
        match self {
            Self::Started(_) => EventKind::Started,
            Self::Intent(_) => EventKind::Intent,
            Self::Done(_) => EventKind::Done,
            Self::Failed(_) => EventKind::Failed,
            Self::Outcome(_) => EventKind::Outcome,
            Self::Timer(_) => EventKind::Timer,
            Self::Signal(_) => EventKind::Signal,
            Self::Keys(_) => EventKind::Keys,
            Self::Iteration(_) => EventKind::Iteration,
            Self::Unwinding(_) => EventKind::Unwinding,
            Self::Ended(_) => EventKind::Ended,
        }
    }
}

/// Fields have numbers, so that a record has 20 to 30 bytes more than its value, and a program reads
/// the records of one with more or fewer optional fields.
fn bytes<T: Encode<()>>(event: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    let written = minicbor::encode(event, &mut bytes);
    debug_assert!(written.is_ok(), "a vector takes all bytes");
    bytes
}

fn read<'b, T: Decode<'b, ()>>(bytes: &'b [u8]) -> Result<T, String> {
    minicbor::decode(bytes).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Epoch;
    use crate::limits::{LIST_ITEMS, TEXT_BYTES};
    use crate::path::Path;
    use crate::record::*;
    use crate::time::Timestamp;
    use crate::value::Value;

    fn each_kind() -> Vec<Record> {
        let path = || Path::template("t").step("s");
        let value = || Value::encode("v").unwrap();
        let failure = || Failure { code: "Code".to_owned(), text: Some("text".to_owned()) };
        let (at, attempt, millis) = (Timestamp::from_millis(5), 1, 9);
        let lock = LockToken { lock: "l".to_owned(), key: "k".to_owned(), epoch: Epoch::new(3) };
        let name = || "n".to_owned();
        let cause = || Some(Cause { code: "Cause".to_owned(), value: Some(value()) });
        let events = [
            Event::Started(Started {
                template: name(),
                version: 2,
                parameters: value(),
                user: None,
                deadline: Some(at),
                trace: None,
                schedule: None,
                is_asked_for: false,
                parent: None,
            }),
            Event::Intent(Intent {
                at,
                attempt,
                locks: vec![lock],
                has_undo: Some(true),
                input: Some(value()),
                form: Some(IntentForm::Once),
            }),
            Event::Done(Done { value: value(), attempt, millis }),
            Event::Failed(Failed {
                failure: failure(),
                attempt,
                millis,
                effect: Effect::Unknown,
                cause: cause(),
            }),
            Event::Outcome(Outcome {
                winner: Some(path().branch("b")),
                ending: Ending::Completed(value()),
            }),
            Event::Timer(Timer { at, attempt: 0, ends: Some(at) }),
            Event::Signal(TakenSignal { number: 4, name: name(), value: value() }),
            Event::Keys(Keys { keys: vec![name()] }),
            Event::Iteration(Iteration { index: 1, state: value() }),
            Event::Unwinding(Unwinding { failed: path(), failure: failure(), cause: cause() }),
            Event::Ended(Ended { ending: Ending::Failed(failure()) }),
        ];
        events.into_iter().map(|event| Record::new(path(), event)).collect()
    }

    #[test]
    fn each_kind_is_read_back() {
        for (index, record) in each_kind().into_iter().enumerate() {
            let encoded = encoded(&record).unwrap();
            assert_eq!(usize::from(encoded.kind), index + 1, "the numbers on disk stay");
            assert_eq!(encoded.decoded(&encoded.body), Ok(record));
        }
    }

    #[test]
    fn a_cut_or_foreign_record_is_an_error_and_not_another_record() {
        for record in each_kind() {
            let whole = encoded(&record).unwrap();
            for length in 0..whole.body.len() {
                let cut = whole.decoded(&whole.body[..length]);
                assert!(cut.is_err(), "{record:?} cut to {length}");
            }
            let later = Encoded { kind: 200, ..whole };
            assert!(later.decoded(&later.body).unwrap_err().contains("200"));
        }
    }

    #[test]
    fn what_is_too_large_is_named() {
        let what = |record: &Record| match encoded(record) {
            Ok(_) => "",
            Err(Refused::TooLarge { what, .. }) => what,
            Err(error) => panic!("{error}"),
        };
        let long = "x".repeat(TEXT_BYTES + 1);
        let path = Path::template("t");
        let keys = |keys| Record::new(path.clone(), Event::Keys(Keys { keys }));
        assert_eq!(what(&keys(vec![long.clone()])), "text");
        assert_eq!(what(&keys(vec![String::new(); LIST_ITEMS + 1])), "list");
        assert_eq!(what(&Record { path: path.step(&long), ..keys(Vec::new()) }), "path");
        assert_eq!(what(&keys(vec!["x".repeat(TEXT_BYTES); 200])), "");
        assert_eq!(what(&keys(vec!["x".repeat(TEXT_BYTES); 300])), "record");
    }
}
