//! Lines for programs: one JSON object each.

use std::fmt::{self, Debug, Display};

use serde::Serialize;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::Record;
use tracing::{Event, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::{LookupSpan, SpanRef};

use super::value;
use asyncsteps_executor::observe::Cut;

/// A line, with the fields that it is searched by in front.
#[derive(Serialize)]
pub(super) struct Line<'a> {
    pub(super) timestamp: String,
    pub(super) level: &'a str,
    pub(super) target: &'a str,
    pub(super) fields: Map<String, Value>,
    pub(super) spans: Vec<Around>,
}

/// A span around a line.
#[derive(Serialize)]
pub(super) struct Around {
    name: &'static str,
    fields: Map<String, Value>,
}

/// Each character that would act on a reader is an escape: JSON itself demands that for the control
/// characters of ASCII only. None is outside of a string.
impl Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = serde_json::to_string(self).map_err(|_| fmt::Error)?;
        for part in line.split_inclusive(value::acts) {
            let plain = part.trim_end_matches(value::acts);
            f.write_str(plain)?;
            for unit in part[plain.len()..].encode_utf16() {
                write!(f, "\\u{unit:04x}")?;
            }
        }
        f.write_str("\n")
    }
}

/// How the fields of spans are kept: as a JSON object.
pub(super) struct JsonFields {
    pub(super) longest_value: usize,
}

impl JsonFields {
    fn read(&self, into: Map<String, Value>, fields: impl RecordFields) -> Map<String, Value> {
        let mut object = Object { fields: into, longest_value: self.longest_value };
        fields.record(&mut object);
        object.fields
    }
}

impl<'writer> FormatFields<'writer> for JsonFields {
    fn format_fields<R: RecordFields>(
        &self,
        mut writer: Writer<'writer>,
        fields: R,
    ) -> fmt::Result {
        write!(writer, "{}", Value::Object(self.read(Map::new(), fields)))
    }

    fn add_fields(
        &self,
        current: &'writer mut FormattedFields<Self>,
        fields: &Record<'_>,
    ) -> fmt::Result {
        // empty if the span began without a field
        let known = serde_json::from_str(&current.fields).unwrap_or_default();
        current.fields = Value::Object(self.read(known, fields)).to_string();
        Ok(())
    }
}

/// How a whole line is written.
pub(super) struct JsonLines;

impl<S> FormatEvent<S, JsonFields> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn format_event(
        &self,
        ctx: &FmtContext<'_, S, JsonFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = ctx.field_format().read(Map::new(), event);
        // a record of the crate `log` has its own target in a field
        let target = fields.remove("log.target");
        fields.retain(|name, _| !name.starts_with("log."));
        // those around the event's own span, which is not always the one that is entered now
        let spans = ctx.event_scope().into_iter().flat_map(|scope| scope.from_root());
        let metadata = event.metadata();
        let line = Line {
            timestamp: time(),
            level: metadata.level().as_str(),
            target: target.as_ref().and_then(Value::as_str).unwrap_or_else(|| metadata.target()),
            fields,
            spans: spans.map(|span| around(&span)).collect(),
        };
        write!(writer, "{line}")
    }
}

fn around<'a, S: LookupSpan<'a>>(span: &SpanRef<'a, S>) -> Around {
    let extensions = span.extensions();
    let fields = extensions.get::<FormattedFields<JsonFields>>();
    let fields = fields.and_then(|fields| serde_json::from_str(&fields.fields).ok());
    Around { name: span.name(), fields: fields.unwrap_or_default() }
}

struct Object {
    fields: Map<String, Value>,
    longest_value: usize,
}

impl Object {
    fn set(&mut self, field: &Field, value: impl Into<Value>) {
        self.fields.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Object {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, Cut::text(value, self.longest_value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.set(field, Cut::text(format_args!("{value:?}"), self.longest_value));
    }
}

/// The time of a line.
pub(super) fn time() -> String {
    let mut time = String::new();
    // as the other lines: without a clock there is none
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    time
}
