//! Recordings of flows: the history of their steps, with times.
//!
//! A [`Recording`] has room for a fixed number of events. Writing them takes no memory, and recordings of an arbiter
//! use the room of earlier ones again. So all flows of a service can be recorded, and whether a recording is kept is
//! decided when its flow has ended: because it was slow, or failed.
//!
//! ```
//! use std::time::Duration;
//!
//! use asyncsteps_core::Flow;
//! use asyncsteps_actors::flow::start_flow;
//! use asyncsteps_actors::record::{self, Recording};
//! use tracing::Span;
//!
//! # actix::System::new().block_on(async {
//! let mut flow = Flow::new();
//! flow.run(async |()| Ok(asyncsteps_core::sleep(Duration::from_millis(1)).await)).named("pause");
//! let recording = Recording::start();
//! record::observe(&mut flow, &Span::none(), None, Some(&recording));
//! start_flow::<()>(flow).await?;
//! let recorded = recording.recorded();
//! assert_eq!(recorded.tree().steps[0].location.name(), Some("pause"));
//! assert!(recorded.to_string().starts_with("pause "), "{recorded}");
//! # Ok::<(), asyncsteps_core::Error>(()) }).unwrap();
//! ```

mod event;
mod line;
mod recorder;
mod recording;
mod ring;
mod tree;

use asyncsteps_core::Flow;
use tracing::Span;

use crate::span::SpanObserver;
use crate::trace::TraceParent;

pub use event::{Ending, FailedStep, Recorded, StepEvent, StepEventKind};
pub use recording::Recording;
pub use tree::{RecordedStep, StepTree};

use recorder::RecordingObserver;

/// Traces the steps of a flow below the span `root`, if a subscriber wants that and the flow belongs to no trace or to
/// a sampled one, and records them, if there is a recording; to be called before the flow starts. A recording takes
/// several flows, such as the undos of the first one.
pub fn observe(
    flow: &mut Flow,
    root: &Span,
    trace: Option<TraceParent>,
    recording: Option<&Recording>,
) {
    let recorder = recording.map(RecordingObserver::new);
    match (SpanObserver::wanted(root, trace), recorder) {
        (None, None) => {}
        (Some(spans), None) => flow.observe(spans),
        (None, Some(recorder)) => flow.observe(recorder),
        (Some(spans), Some(recorder)) => flow.observe((spans, recorder)),
    }
}
