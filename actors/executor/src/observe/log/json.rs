//! Lines for programs: one JSON object each.

use std::fmt::{self, Debug, Display};
use std::io;

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::Record;
use tracing::{Event, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::{LookupSpan, SpanRef};

use super::notice::Notice;
use super::text::time;
use super::value;
use crate::observe::cut::Cut;

/// A line, with the fields that it is searched by in front.
#[derive(Serialize)]
struct Line<'a> {
    timestamp: String,
    level: &'a str,
    target: &'a str,
    fields: Map<String, Value>,
    spans: Vec<Around>,
}

/// A span around a line.
#[derive(Serialize)]
struct Around {
    name: &'static str,
    fields: Map<String, Value>,
}

impl Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = Vec::new();
        let mut serializer = Serializer::with_formatter(&mut bytes, Escaped);
        self.serialize(&mut serializer).map_err(|_| fmt::Error)?;
        f.write_str(str::from_utf8(&bytes).map_err(|_| fmt::Error)?)
    }
}

/// JSON on one line, in which each character that would act on a reader is an escape: JSON itself
/// demands that for the control characters of ASCII only.
struct Escaped;

impl Formatter for Escaped {
    fn write_string_fragment<W>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        for part in fragment.split_inclusive(value::acts) {
            let plain = part.trim_end_matches(value::acts);
            writer.write_all(plain.as_bytes())?;
            for unit in part[plain.len()..].encode_utf16() {
                write!(writer, "\\u{unit:04x}")?;
            }
        }
        Ok(())
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
        writeln!(writer, "{line}")
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

/// The line of a notice.
pub(super) fn line(notice: &Notice<'_>) -> String {
    let Notice { level, target, message, fields } = *notice;
    let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), value.to_string().into()));
    let mut fields: Map<String, Value> = fields.collect();
    fields.insert("message".to_owned(), message.into());
    let line = Line { timestamp: time(), level, target, fields, spans: Vec::new() };
    format!("{line}\n")
}
