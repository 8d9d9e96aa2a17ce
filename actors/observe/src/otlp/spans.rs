//! A request that has ended, as spans of OpenTelemetry.

use std::time::{Duration, SystemTime};

use asyncsteps_actors::record::{Ending, FailedStep, RecordedStep};
use asyncsteps_actors::trace::TraceParent;
use opentelemetry::trace::{SpanContext, SpanKind, Status, TraceFlags, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue, SpanId, TraceId};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

use asyncsteps_executor::channel::ChannelKind;
use asyncsteps_executor::observe::RequestRecord;

/// The name of a refused request: there is no bound to the names of functions that do not exist.
const REFUSED: &str = "request refused";

/// The span of a request, then the spans of its steps.
pub(super) fn of_request(request: &RequestRecord) -> Vec<SpanData> {
    let mut spans = vec![request_span(request)];
    if let Some(started) = request.started {
        let steps = Steps {
            trace: request.trace,
            began: request.arrived + started,
            length: request.steps.length,
        };
        steps.add(&request.steps.tree().steps, request.trace, &mut spans);
    }
    spans
}

fn request_span(request: &RequestRecord) -> SpanData {
    let RequestRecord { function, trace, parent, arrived, outcome, .. } = request;
    let is_local = request.channel == ChannelKind::Local;
    let name = request.started.map_or_else(|| REFUSED.to_owned(), |_| function.to_string());
    let mut attributes = vec![
        KeyValue::new("rpc.system", "futoin"),
        KeyValue::new("rpc.service", format!("{}:{}", function.iface(), function.version())),
        KeyValue::new("rpc.method", function.func().to_owned()),
        KeyValue::new("futoin.channel", request.channel.name()),
    ];
    attributes.extend(request.rid.clone().map(|rid| KeyValue::new("futoin.rid", rid)));
    if !request.queued.is_zero() {
        attributes.push(KeyValue::new("asyncsteps.queued", request.queued.as_secs_f64()));
    }
    if let Some(waited) = request.started.filter(|waited| !waited.is_zero()) {
        attributes.push(KeyValue::new("asyncsteps.waited", waited.as_secs_f64()));
    }
    if request.steps.lost > 0 {
        let lost = i64::try_from(request.steps.lost).unwrap_or(i64::MAX);
        attributes.push(KeyValue::new("asyncsteps.lost_events", lost));
    }
    let status = match &**outcome {
        "success" => Status::Unset,
        code => {
            attributes.push(KeyValue::new("error.type", code.to_owned()));
            Status::error(code.to_owned())
        }
    };
    SpanData {
        span_kind: if is_local { SpanKind::Internal } else { SpanKind::Server },
        parent_span_is_remote: parent.is_some() && !is_local,
        attributes,
        status,
        ..span(*trace, *parent, name, *arrived, *arrived + request.total)
    }
}

/// The steps of a request.
struct Steps {
    trace: TraceParent,
    /// When the times of steps begin.
    began: SystemTime,
    length: Duration,
}

impl Steps {
    /// Adds the spans of steps that are inside of another span, and of those inside of them.
    fn add(&self, steps: &[RecordedStep], parent: TraceParent, spans: &mut Vec<SpanData>) {
        for step in steps {
            let own = self.trace.child();
            spans.push(self.step(step, own, parent));
            self.add(&step.steps, own, spans);
        }
    }

    fn step(&self, step: &RecordedStep, own: TraceParent, parent: TraceParent) -> SpanData {
        let location = step.location;
        let name =
            location.name().map_or_else(|| place(location.file(), location.line()), str::to_owned);
        let mut attributes = vec![
            KeyValue::new("code.file.path", location.file().to_owned()),
            KeyValue::new("code.line.number", i64::from(location.line())),
        ];
        if step.attempt > 1 {
            attributes.push(KeyValue::new("asyncsteps.attempt", i64::from(step.attempt)));
        }
        if step.branch > 0 {
            attributes.push(KeyValue::new("asyncsteps.branch", i64::from(step.branch)));
        }
        if step.flow > 0 {
            attributes.push(KeyValue::new("asyncsteps.undo", true));
        }
        let error = |code: &str| KeyValue::new("error.type", code.to_owned());
        let status = match &step.ended {
            Some((_, Ending::Error(FailedStep { code, info, .. }))) => {
                attributes.push(error(code));
                Status::error(info.clone().unwrap_or_else(|| code.to_string()))
            }
            Some((_, Ending::Recovered(FailedStep { code, .. }))) => {
                attributes.push(error(code));
                Status::Ok
            }
            Some((_, Ending::Cancelled)) => {
                attributes.push(error("cancelled"));
                Status::Unset
            }
            Some(_) | None => Status::Unset,
        };
        let began = self.began + step.began;
        let ended = began + step.time(self.length);
        SpanData { attributes, status, ..span(own, Some(parent), name, began, ended) }
    }
}

/// A step without a name.
fn place(file: &str, line: u32) -> String {
    let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
    format!("{name}:{line}")
}

fn span(
    own: TraceParent,
    parent: Option<TraceParent>,
    name: String,
    began: SystemTime,
    ended: SystemTime,
) -> SpanData {
    let span_id = |span: TraceParent| SpanId::from_bytes(span.span_id_bytes());
    let trace_id = TraceId::from_bytes(own.trace_id_bytes());
    SpanData {
        span_context: SpanContext::new(
            trace_id,
            span_id(own),
            TraceFlags::SAMPLED,
            false,
            TraceState::NONE,
        ),
        parent_span_id: parent.map_or(SpanId::INVALID, span_id),
        parent_span_is_remote: false,
        span_kind: SpanKind::Internal,
        name: name.into(),
        start_time: began,
        end_time: ended,
        attributes: Vec::new(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: Status::Unset,
        instrumentation_scope: scope(),
    }
}

fn scope() -> InstrumentationScope {
    InstrumentationScope::builder("asyncsteps").with_version(env!("CARGO_PKG_VERSION")).build()
}
