//! A writer that nobody uses.

use std::mem;
use std::rc::Rc;
use std::sync::Arc;

use asyncsteps_journal::{Epoch, Journal, RecordId, Uid};

use super::{FlowWriter, RecordTicket};

/// The writer of a flow that may rest for long, or what is kept of it meanwhile.
pub(crate) enum RestingWriter {
    Awake(Rc<FlowWriter>),
    Rests {
        next: u64,
        added: RecordTicket,
        stored_as: Box<[(RecordTicket, RecordId)]>,
        seen: u64,
        inbox: u64,
    },
}

impl RestingWriter {
    /// The writer of this flow in this journal.
    pub(crate) fn awake(
        &mut self,
        journal: &Arc<dyn Journal>,
        flow: (Uid, Epoch, u32),
    ) -> Rc<FlowWriter> {
        let writer = match self {
            Self::Awake(writer) => return Rc::clone(writer),
            Self::Rests { next, added, stored_as, seen, inbox } => {
                let writer = FlowWriter::new(Arc::clone(journal), flow, *next, *seen);
                writer.inbox.set(*inbox);
                let mut queue = writer.queue.borrow_mut();
                (queue.added, queue.stored) = (*added, *added);
                queue.stored_as = mem::take(stored_as).into_vec().into();
                drop(queue);
                writer
            }
        };
        *self = Self::Awake(Rc::clone(&writer));
        writer
    }

    /// Whether the flow cannot append any more: one that rests has not noticed that.
    pub(crate) fn has_stopped(&self) -> bool {
        match self {
            Self::Awake(writer) => writer.has_stopped(),
            Self::Rests { .. } => false,
        }
    }

    /// Nothing more is added for long. Called again when all is stored, it keeps as little as it can.
    pub(crate) fn rest(&mut self) {
        let Self::Awake(writer) = self else { return };
        writer.rest();
        if let Some(rests) = writer.rested() {
            *self = rests;
        }
    }
}

impl FlowWriter {
    /// What is kept of it while nobody uses it, if its task has ended with all stored.
    fn rested(self: &Rc<Self>) -> Option<RestingWriter> {
        let mut queue = self.queue.borrow_mut();
        let is_used = Rc::strong_count(self) > 1 || queue.is_appending || queue.failed.is_some();
        if is_used || !(queue.waiting.is_empty() && queue.replaces.is_empty()) {
            return None;
        }
        let stored_as = Vec::from(mem::take(&mut queue.stored_as)).into_boxed_slice();
        let (seen, inbox) = (self.seen.get(), self.inbox.get());
        Some(RestingWriter::Rests { next: queue.next, added: queue.added, stored_as, seen, inbox })
    }
}
