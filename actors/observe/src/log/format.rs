//! The forms of the log.

use super::json::{Line, time};
use super::text::add_field;

/// The form of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there are people, and there are programs")]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line, with `timestamp`, `level`, `target`, `fields` and `spans`.
    Json,
}

impl Format {
    /// The form that a variable of the environment names.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        match name {
            "text" => Some(Self::Text),
            "json" => Some(Self::Json),
            _ => None,
        }
    }

    /// A line that does not come through `tracing`: of a panic, or of lines that were dropped.
    pub(super) fn line(
        self,
        level: &str,
        target: &str,
        message: &str,
        fields: &[(&str, String)],
    ) -> String {
        match self {
            Self::Text => {
                let mut line = format!("{} {level:>5} {target}: {message}", time());
                for (name, value) in fields {
                    add_field(&mut line, name, value, false);
                }
                line + "\n"
            }
            Self::Json => {
                let fields = fields.iter().map(|(name, value)| (*name, value.as_str()));
                let fields = fields.chain([("message", message)]);
                let fields = fields.map(|(name, value)| (name.to_owned(), value.into())).collect();
                Line { timestamp: time(), level, target, fields, spans: Vec::new() }.to_string()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_names_a_form_exactly() {
        assert_eq!(Format::from_name("text"), Some(Format::Text));
        assert_eq!(Format::from_name("json"), Some(Format::Json));
        for wrong in ["", "JSON", "yaml"] {
            assert_eq!(Format::from_name(wrong), None, "{wrong}");
        }
    }
}
