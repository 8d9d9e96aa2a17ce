//! What a running system shows: spans of requests and steps.

mod span;

pub(crate) use span::{SpanObserver, request_span, steps_enabled};
