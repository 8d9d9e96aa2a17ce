//! What the stream of a connection and the application's service tell each other.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Waker};

use actix_http::{HttpMessage, Payload, Request};
use actix_web::http::header::{CONTENT_LENGTH, TRANSFER_ENCODING, UPGRADE};
use asyncsteps::Time;

use super::framing::Chunks;
use asyncsteps_actors::clock;

/// How far a connection is. Both sides are on one arbiter.
pub(super) struct Progress {
    phase: Cell<Phase>,
    /// How many bytes were read behind the head that was read last.
    beyond: Cell<u64>,
    /// The same bytes taken for a chunked body.
    chunks: Cell<Chunks>,
    /// When the first byte of the next head was read.
    begun: Cell<Option<Time>>,
    /// Requests so far.
    requests: Cell<u64>,
    /// The task of the connection.
    task: RefCell<Option<Waker>>,
    /// Whether the next bytes are here already.
    is_held: Cell<bool>,
    /// Since when the server closes.
    closing: Cell<Option<Time>>,
}

/// What is read next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The head of a request.
    Head,
    /// So many bytes of a body.
    Body(u64),
    /// A body that tells its own end.
    Chunks,
    /// Nothing before the request is answered.
    Nothing,
    /// Everything: another protocol took over.
    Other,
}

impl Progress {
    pub(super) fn new() -> Rc<Self> {
        Rc::new(Self {
            phase: Cell::new(Phase::Head),
            beyond: Cell::new(0),
            chunks: Cell::new(Chunks::new()),
            begun: Cell::default(),
            requests: Cell::new(0),
            task: RefCell::default(),
            is_held: Cell::default(),
            closing: Cell::default(),
        })
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase.get()
    }

    /// When the first byte of the head that is read now came.
    pub(super) fn begun(&self) -> Option<Time> {
        self.begun.get()
    }

    /// Whether there was a request.
    pub(super) fn is_used(&self) -> bool {
        self.requests.get() > 0
    }

    /// Since when the server closes.
    pub(super) fn closing(&self) -> Option<Time> {
        self.closing.get()
    }

    /// The server closes.
    pub(super) fn close(&self, now: Time) {
        self.closing.set(Some(now));
    }

    /// Bytes of a head were read, `behind` of them after its end, if that was among them.
    pub(super) fn read_head(&self, behind: Option<&[u8]>) {
        if self.begun.get().is_none() {
            self.begun.set(Some(clock::now()));
        }
        if let Some(behind) = behind {
            let mut chunks = Chunks::new();
            chunks.follow(behind);
            self.chunks.set(chunks);
            self.beyond.set(behind.len() as u64);
        }
    }

    /// So many bytes of a body were read.
    pub(super) fn read_body(&self, bytes: usize) {
        if let Phase::Body(missing) = self.phase.get() {
            self.phase.set(body(missing.saturating_sub(bytes as u64)));
        }
    }

    /// How many of these bytes belong to the chunked body, which were read.
    pub(super) fn read_chunks(&self, bytes: &[u8]) -> usize {
        let mut chunks = self.chunks.get();
        let length = chunks.follow(bytes);
        self.chunks.set(chunks);
        if chunks.is_over() {
            self.phase.set(Phase::Nothing);
        }
        length
    }

    /// The task that reads.
    pub(super) fn watch(&self, cx: &Context<'_>) {
        let mut task = self.task.borrow_mut();
        if !task.as_ref().is_some_and(|task| task.will_wake(cx.waker())) {
            *task = Some(cx.waker().clone());
        }
    }

    /// Whether bytes of the next request are here, which nothing else will tell.
    pub(super) fn hold(&self, is_held: bool) {
        self.is_held.set(is_held);
    }

    /// A request begins; dropping what this gives tells that it is answered.
    pub(super) fn begin(self: &Rc<Self>, request: &mut Request) -> InService {
        self.begun.set(None);
        self.requests.set(self.requests.get() + 1);
        self.phase.set(match length(request) {
            Length::None => Phase::Nothing,
            Length::Bytes(bytes) => body(bytes.saturating_sub(self.beyond.get())),
            Length::Chunked if self.chunks.get().is_over() => Phase::Nothing,
            Length::Chunked => Phase::Chunks,
            Length::Endless => Phase::Other,
        });
        InService(Rc::clone(self))
    }

    fn end(&self) {
        let is_over = match self.phase.replace(Phase::Head) {
            Phase::Body(_) | Phase::Chunks => {
                // what is left of it has the time of a head
                self.begun.set(Some(clock::now()));
                false
            }
            Phase::Head | Phase::Nothing | Phase::Other => true,
        };
        if (!is_over || self.is_held.get() || self.closing.get().is_some())
            && let Some(task) = &*self.task.borrow()
        {
            task.wake_by_ref();
        }
    }
}

/// A request that is not answered.
pub(super) struct InService(Rc<Progress>);

impl Drop for InService {
    fn drop(&mut self) {
        self.0.end();
    }
}

fn body(missing: u64) -> Phase {
    if missing == 0 { Phase::Nothing } else { Phase::Body(missing) }
}

/// How long a body is (RFC 9112 §6.3).
enum Length {
    None,
    Bytes(u64),
    Chunked,
    /// It is no body, but what is said after an upgrade.
    Endless,
}

fn length(request: &mut Request) -> Length {
    if !matches!(request.payload(), Payload::H1 { .. }) {
        return Length::None;
    }
    let headers = request.headers();
    if headers.contains_key(TRANSFER_ENCODING) {
        return Length::Chunked;
    }
    let is_upgrade = headers
        .get_all(UPGRADE)
        .any(|protocol| protocol.as_bytes().trim_ascii().eq_ignore_ascii_case(b"websocket"));
    let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    match length.and_then(|length| length.parse().ok()) {
        Some(length) if !is_upgrade => Length::Bytes(length),
        _ => Length::Endless,
    }
}
