//! Lines for people: `time LEVEL spans: target: message name=value`.

use std::fmt::{self, Debug, Display, Write};

use tracing::field::{Field, Visit};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

use super::notice::Notice;
use super::value;
use crate::observe::cut::Cut;

/// How fields are written in lines for people.
pub(super) struct TextFields {
    pub(super) longest_value: usize,
}

impl<'writer> FormatFields<'writer> for TextFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        let Self { longest_value } = *self;
        let mut line = TextLine { writer, longest_value, is_first: true, result: Ok(()) };
        fields.record(&mut line);
        line.result
    }
}

struct TextLine<'a> {
    writer: Writer<'a>,
    longest_value: usize,
    is_first: bool,
    result: fmt::Result,
}

impl TextLine<'_> {
    fn field(&mut self, name: &str, value: impl Display, is_text: bool) {
        // the fields that the crate `log` adds are in the line already
        if self.result.is_ok() && !name.starts_with("log.") {
            let text = Cut::text(value, self.longest_value);
            self.result = self.write(name, &text, is_text);
            self.is_first = false;
        }
    }

    fn write(&mut self, name: &str, text: &str, is_text: bool) -> fmt::Result {
        if !self.is_first {
            self.writer.write_char(' ')?;
        }
        write_field(&mut self.writer, name, text, is_text)
    }
}

fn write_field(line: &mut impl Write, name: &str, text: &str, is_text: bool) -> fmt::Result {
    if name == "message" {
        return value::escape(line, text);
    }
    write!(line, "{name}=")?;
    match !is_text && value::is_word(text) {
        true => line.write_str(text),
        false => value::quote(line, text),
    }
}

impl Visit for TextLine<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.field(field.name(), value, true);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.field(field.name(), format_args!("{value:?}"), false);
    }
}

/// The line of a notice.
pub(super) fn line(notice: &Notice<'_>) -> String {
    let Notice { level, target, message, fields } = *notice;
    let mut line = time();
    let written = write!(line, " {level:>5} {target}: {message}").and_then(|()| {
        fields.iter().try_for_each(|(name, value)| {
            line.write_char(' ')?;
            write_field(&mut line, name, &value.to_string(), false)
        })
    });
    // a value that cannot be shown ends the line early
    let _ = written;
    line.push('\n');
    line
}

/// The time of a line.
pub(super) fn time() -> String {
    let mut time = String::new();
    // as the other lines: without a clock there is none
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    time
}
