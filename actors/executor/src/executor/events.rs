//! What a request emits, on the way to a caller that watches it: server-sent events (HTML §9.2).

use std::cell::Cell;
use std::future::pending;
use std::rc::Rc;

use tokio::sync::mpsc;

/// How many events wait for a caller that takes none. A progress has few, and a caller that reads at all is seldom behind.
const WINDOW: usize = 32;

/// The most bytes of an event as JSON: as a journal has it unless it is told otherwise.
const EVENT_BYTES: usize = 16 << 10;

/// The text of an event of this kind, whose data is JSON on one line.
#[must_use]
pub fn event_text(kind: &str, json: &str) -> String {
    format!("event: {kind}\ndata: {json}\n\n")
}

/// Where the events of a request go whose caller watches it.
#[derive(Debug)]
pub struct EventSender {
    events: mpsc::Sender<String>,
    lost: Rc<Cell<u64>>,
    after: u64,
}

impl EventSender {
    /// The number of the last event that the caller has, 0 for none.
    #[must_use]
    pub fn after(&self) -> u64 {
        self.after
    }

    /// Sends the text of an event of a request that a host records, as soon as the caller takes it.
    pub async fn send(&self, text: String) {
        // a caller that is gone ends the request elsewhere
        let _ = self.events.send(text).await;
    }

    /// Emits an event. Nothing waits for a slow caller, who learns how many events are lost.
    pub(crate) fn emit(&self, json: &str) {
        match self.events.try_reserve() {
            Ok(place) if json.len() <= EVENT_BYTES => {
                place.send(lost(&self.lost) + &event_text("emit", json));
            }
            Ok(_) | Err(_) => self.lost.set(self.lost.get() + 1),
        }
    }
}

/// The events of a request, for the transport of its caller.
#[derive(Debug)]
pub struct EventReceiver {
    events: mpsc::Receiver<String>,
    lost: Rc<Cell<u64>>,
}

impl EventReceiver {
    /// The two ends, for a caller that has the events up to this one.
    pub(super) fn after(after: u64) -> (EventSender, Self) {
        let (sender, events) = mpsc::channel(WINDOW);
        let lost = Rc::<Cell<u64>>::default();
        (EventSender { events: sender, lost: Rc::clone(&lost), after }, Self { events, lost })
    }

    /// The text of the next event; pending if there is none, so this is polled beside the reply.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> String {
        match self.events.recv().await {
            Some(text) => text,
            None => pending().await,
        }
    }

    /// The events that are there when the reply is: a flow may emit and end in one turn.
    pub fn rest(&mut self) -> String {
        let mut text = String::new();
        while let Ok(event) = self.events.try_recv() {
            text += &event;
        }
        text + &lost(&self.lost)
    }
}

/// Says to a caller that it was too slow for some events.
fn lost(count: &Cell<u64>) -> String {
    match count.take() {
        0 => String::new(),
        lost => event_text("lost", &lost.to_string()),
    }
}
