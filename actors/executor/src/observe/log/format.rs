//! The forms of the log.

use super::notice::Notice;
use super::{json, text};

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

    /// The line of a notice.
    pub(super) fn line(self, notice: &Notice<'_>) -> String {
        match self {
            Self::Text => text::line(notice),
            Self::Json => json::line(notice),
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
