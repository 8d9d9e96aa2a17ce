//! Lines for people: `time LEVEL spans: target: message name=value`.

use std::fmt::{self, Debug, Display};

use tracing::field::{Field, Visit};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::Writer;

use super::value;
use asyncsteps_executor::observe::Cut;

/// How fields are written in lines for people.
pub(super) struct TextFields {
    pub(super) longest_value: usize,
}

impl<'writer> FormatFields<'writer> for TextFields {
    fn format_fields<R: RecordFields>(
        &self,
        mut writer: Writer<'writer>,
        fields: R,
    ) -> fmt::Result {
        let mut line = TextLine { text: String::new(), longest_value: self.longest_value };
        fields.record(&mut line);
        writer.write_str(&line.text)
    }
}

struct TextLine {
    text: String,
    longest_value: usize,
}

impl TextLine {
    fn add(&mut self, field: &Field, value: impl Display, is_text: bool) {
        // the fields that the crate `log` adds are in the line already
        if !field.name().starts_with("log.") {
            let value = Cut::text(value, self.longest_value);
            add_field(&mut self.text, field.name(), &value, is_text);
        }
    }
}

impl Visit for TextLine {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value, true);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.add(field, format_args!("{value:?}"), false);
    }
}

/// Adds a field to a line. A text, and what is not one word, is in quotation marks, so that its end is known.
pub(super) fn add_field(line: &mut String, name: &str, value: &str, is_text: bool) {
    if !line.is_empty() {
        line.push(' ');
    }
    let is_message = name == "message";
    if !is_message {
        line.extend([name, "="]);
    }
    let is_quoted = !is_message && (is_text || !value::is_word(value));
    let mark = if is_quoted { "\"" } else { "" };
    line.push_str(mark);
    value::escape(line, value, is_quoted);
    line.push_str(mark);
}
