//! Recordings of flows: what their steps did, and when.
//!
//! A [`Recording`] has room for a fixed number of events. Writing them takes no memory, and recordings
//! of an arbiter use the room of earlier ones again. So all flows of a service can be recorded, and it is
//! decided when one is over whether anybody needs to know: because it was slow, or failed.
//!
//! ```
//! use std::time::Duration;
//!
//! use asyncsteps::Flow;
//! use asyncsteps_actors::flow::start_flow;
//! use asyncsteps_actors::record::{self, Recording};
//! use tracing::Span;
//!
//! # actix::System::new().block_on(async {
//! let mut flow = Flow::new();
//! flow.run(async |()| Ok(asyncsteps::sleep(Duration::from_millis(1)).await)).named("pause");
//! let recording = Recording::start();
//! record::observe(&mut flow, &Span::none(), Some(&recording));
//! start_flow::<()>(flow).await?;
//! let recorded = recording.recorded();
//! assert_eq!(recorded.tree().steps[0].location.name(), Some("pause"));
//! assert!(recorded.to_string().starts_with("pause "), "{recorded}");
//! # Ok::<(), asyncsteps::Error>(()) }).unwrap();
//! ```

mod event;
mod line;
mod ring;
mod tree;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use asyncsteps::{Error, Flow, Observer, StepEnd, StepRef};
use tokio::time::Instant;
use tracing::Span;

use crate::clock;
use crate::span::SpanObserver;

pub use event::{Ending, Recorded, StepError, StepEvent, StepEventKind};
pub use tree::{RecordedStep, StepTree};

use ring::{Ring, Written, WrittenKind};

/// What the steps of a flow did; for the arbiter of the flow. Cloning shares.
#[derive(Clone, Debug)]
pub struct Recording(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    began: Instant,
    ring: RefCell<Ring>,
    /// How many flows write here.
    flows: Cell<u32>,
}

/// A flow that is recorded.
struct Recorder {
    recording: Recording,
    flow: u32,
}

impl Recording {
    /// A recording that begins now.
    #[must_use]
    pub fn start() -> Self {
        let (began, ring) = (clock::read(), RefCell::new(Ring::take()));
        Self(Rc::new(Inner { began, ring, flows: Cell::new(0) }))
    }

    /// What was recorded until now.
    #[must_use]
    pub fn recorded(&self) -> Recorded {
        let Inner { began, ring, .. } = &*self.0;
        ring.borrow().recorded(*began, clock::read().saturating_duration_since(*began))
    }

    /// Another flow is recorded here.
    fn add_flow(&self) -> Recorder {
        let flow = self.0.flows.get();
        self.0.flows.set(flow + 1);
        Recorder { recording: self.clone(), flow }
    }

    fn write(&self, flow: u32, step: StepRef, kind: WrittenKind) {
        self.0.ring.borrow_mut().write(Written { at: clock::read(), flow, step, kind });
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.ring.take().give_back();
    }
}

impl Observer for Recorder {
    fn begin(&mut self, step: StepRef) {
        self.recording.write(self.flow, step, WrittenKind::Began);
    }

    fn enter(&mut self, _: StepRef) {}

    fn leave(&mut self, _: StepRef) {}

    fn end(&mut self, step: StepRef, end: StepEnd<'_>) {
        self.recording.write(self.flow, step, end.into());
    }

    fn cancel_failed(&mut self, _: StepRef, _: &Error) {}

    fn watches_callbacks(&self) -> bool {
        false
    }
}

/// Has a flow traced below the span `root`, if a subscriber wants spans of steps, and recorded, if there
/// is a recording; to be called before the flow starts. A recording takes several flows, such as those
/// that undo the first one.
pub fn observe(flow: &mut Flow, root: &Span, recording: Option<&Recording>) {
    match (SpanObserver::wanted(root), recording) {
        (None, None) => {}
        (Some(spans), None) => flow.observe(spans),
        (None, Some(recording)) => flow.observe(recording.add_flow()),
        (Some(spans), Some(recording)) => flow.observe((spans, recording.add_flow())),
    }
}
