//! The events that a request emits, as a stream.

use asyncsteps_core::codes;
use asyncsteps_executor::event_text;
use asyncsteps_journal::request::Emitted;
use asyncsteps_journal::{Error, Timestamp, Uid, ValueError};
use futures_util::{Stream, StreamExt, stream};
use serde::de::DeserializeOwned;

use crate::durable::Durable;
use crate::event_reader::EventReader;

/// An event that a request has emitted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EmittedEvent<T> {
    /// Its number: 1 and up, without gaps. A reader goes on after it.
    pub number: u64,
    /// When it was stored, by the clock of the journal.
    pub at: Timestamp,
    /// The event.
    pub event: T,
}

impl Durable {
    /// The events that a request [emits](asyncsteps_executor::Cx::emit), in their order, from the one after this number; 0
    /// for all. It ends when the request has ended and all is read. One that waits for an operator has not ended.
    ///
    /// An event of this process comes at once, one of another process within a second. While the journal cannot be asked,
    /// the stream waits. A reader may be as slow as it likes: events are kept until the request is forgotten.
    ///
    /// # Errors
    /// [`Refused::NoFlow`](asyncsteps_journal::Refused::NoFlow) if there is no such request, and errors of the journal that
    /// persist: the stream ends with them. [`Error::UnknownValue`] in the place of an event of another type.
    ///
    /// # Cancel safety
    /// Dropping the stream does nothing to the request.
    pub fn events<T: DeserializeOwned>(
        &self,
        uid: Uid,
        after: u64,
    ) -> impl Stream<Item = Result<EmittedEvent<T>, Error>> + Send + use<T> {
        let pages = stream::try_unfold(self.event_reader(uid, after), |mut reader| async {
            let events = reader.next().await?;
            Ok::<_, Error>((!events.is_empty()).then_some((events, reader)))
        });
        let events = pages.flat_map(|page| match page {
            Ok(events) => stream::iter(events.into_iter().map(Ok)).left_stream(),
            Err(error) => stream::iter([Err(error)]).right_stream(),
        });
        events.map(move |emitted| typed(uid, emitted?))
    }

    pub(crate) fn event_reader(&self, uid: Uid, after: u64) -> EventReader {
        self.shared.watched.reader(uid, after, &self.shared.journal)
    }
}

/// Events as their readers over HTTP get them.
pub(crate) fn text_of(events: &[Emitted]) -> Result<String, asyncsteps_core::Error> {
    let text = |Emitted { number, value, .. }: &Emitted| {
        let event: serde_json::Value = value.decode()?;
        Ok(format!("id: {number}\n{}", event_text("emit", &event.to_string())))
    };
    let text: Result<_, ValueError> = events.iter().map(text).collect();
    text.map_err(|cause| asyncsteps_core::Error::caused_by(codes::INTERNAL_ERROR, cause))
}

fn typed<T: DeserializeOwned>(uid: Uid, emitted: Emitted) -> Result<EmittedEvent<T>, Error> {
    let Emitted { number, at, value } = emitted;
    // as JSON, in which it was written
    let event = value.decode::<serde_json::Value>().map_err(|error| error.to_string());
    let event = event.and_then(|it| T::deserialize(it).map_err(|error| error.to_string()));
    let what = || format!("event {number} of flow {uid}");
    let event = event.map_err(|reason| Error::UnknownValue { what: what(), reason })?;
    Ok(EmittedEvent { number, at, event })
}
